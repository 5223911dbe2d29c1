import { type Hold, holdsOf, type Operation } from '../checker/history.js'
import type { Cell } from '../run.js'
import type { Mark, Stretch, Visit } from '../situation.js'
import { escape, fix } from './text.js'

const WIDTH = 1000
const LABELS = 64
const RIGHT = 16
const LABEL_ROW = 17
const AXIS = 30
const ACTS = 16
/** Writes that would lie on each other are drawn as one. */
const APART = 8

interface Scale {
  readonly x: (at: number) => number
  readonly laneTop: (owner: string) => number
  readonly lane: number
  readonly top: number
  readonly bottom: number
  readonly start: number
  readonly end: number
  /** Too many to name each. */
  readonly crowded: boolean
}

/** Who held what when, by its own view; where the fault struck; what broke. An SVG that takes its colours from the page. */
export function timeline({ recipe, situation, evidence, verdict }: Cell): string {
  const owners = [...new Set(evidence.history.map(({ owner }) => owner))]
  if (owners.length === 0) return ''
  const crowded = owners.length > 10
  const lane = crowded ? 8 : 40
  const end = lastMoment(evidence.history, evidence.marks, evidence.ms)
  const start = -0.01 * end
  const x = (at: number): number => {
    const part = (Math.min(Math.max(at, start), end) - start) / (end - start)
    return LABELS + part * (WIDTH - LABELS - RIGHT)
  }
  const labels = placeLabels(evidence.marks, x)
  const top = 10 + labels.rows * LABEL_ROW
  const bottom = top + owners.length * lane
  const laneTop = (owner: string): number => top + Math.max(0, owners.indexOf(owner)) * lane
  const scale: Scale = { x, laneTop, lane, top, bottom, start, end, crowded }
  const holds = holdsOf(evidence.history).filter(({ acquire }) => acquire.answer === 'yes')
  const parts = [
    ...lanes(owners, scale),
    ...axis(scale),
    ...evidence.history.filter(({ call }) => call === 'acquire').map((one) => asking(one, scale)),
    ...holds.map((hold) => bar(hold, owners.indexOf(hold.acquire.owner), scale)),
    ...clashes(holds, scale, verdict.word === 'unsafe'),
    ...evidence.stretches.map((one) => stretch(one, scale)),
    ...(crowded ? [] : apart(evidence.visits, x).map((one) => visit(one, scale))),
    ...labels.placed.map((one) => mark(one, scale)),
  ]
  const locks = acts(evidence.history, scale)
  const title = `${recipe.title}, ${situation.title}: ${verdict.word}`
  return `<svg class="timeline" viewBox="0 0 ${WIDTH} ${bottom + AXIS + (locks.length > 1 ? ACTS : 0)}" role="img" aria-label="${escape(title)}">${[...parts, ...(locks.length > 1 ? locks : [])].join('')}</svg>`
}

function lastMoment(history: readonly Operation[], marks: readonly Mark[], ms: number): number {
  const moments = [...history.map(({ from, to }) => to ?? from), ...marks.map(({ at }) => at)]
  const open = history.some(({ to, answer }) => to === undefined || (answer === 'yes' && to === undefined))
  const last = Math.max(...moments, 1)
  return Math.min(Math.max(ms, 1), open ? ms : last * 1.06 + 4)
}

function lanes(owners: readonly string[], { laneTop, lane, crowded }: Scale): string[] {
  return owners.map((owner) => {
    const y = laneTop(owner)
    const line = `<line class="rule" x1="${LABELS}" x2="${WIDTH - RIGHT}" y1="${y + lane}" y2="${y + lane}"/>`
    const size = crowded ? 7 : 14
    return `${line}<text class="owner" x="${LABELS - 10}" y="${fix(y + lane / 2 + size / 3)}" font-size="${size}" text-anchor="end">${escape(owner)}</text>`
  })
}

function axis({ x, start, end, top, bottom }: Scale): string[] {
  const step = niceStep((end - start) / 8)
  const parts: string[] = []
  for (let at = 0; at <= end; at += step) {
    const unit = at + step > end ? ' ms' : ''
    const left = fix(x(at))
    parts.push(
      `<line class="rule" x1="${left}" x2="${left}" y1="${top}" y2="${bottom + 4}"/>`,
      `<text class="faint" x="${left}" y="${bottom + 18}" font-size="11" text-anchor="middle">${at}${unit}</text>`,
    )
  }
  return parts
}

/** Where several locks are taken one after another: which one from when on. */
function acts(history: readonly Operation[], { x, bottom }: Scale): string[] {
  const locks = [...new Set(history.map(({ lock }) => lock))]
  return locks.map((lock) => {
    const from = Math.min(...history.filter((one) => one.lock === lock).map((one) => one.from))
    const left = fix(x(from))
    const y = bottom + AXIS + 6
    return `<line class="asks" x1="${left}" x2="${left}" y1="${y - 10}" y2="${y + 2}"/><text class="faint" x="${fix(x(from) + 5)}" y="${y}" font-size="11">${escape(lock)}</text>`
  })
}

/** What was stored is drawn where there is room for it; what went wrong always is. */
function apart(visits: readonly Visit[], x: (at: number) => number): Visit[] {
  const last = new Map<string, number>()
  return visits.filter(({ owner, to, outcome }) => {
    const at = x(to)
    if (outcome === 'stored' && at - (last.get(owner) ?? Number.NEGATIVE_INFINITY) < APART) return false
    last.set(owner, at)
    return true
  })
}

/** The time in which it asked: a thin line, and at its end what came of it. */
function asking(one: Operation, { x, laneTop, lane, end, crowded }: Scale): string {
  const y = laneTop(one.owner) + lane / 2
  const to = x(one.to ?? end)
  const dash = one.to === undefined ? ' stroke-dasharray="3 4"' : ''
  const tip = `<title>${escape(one.owner)} asks from ${fix(one.from)} ms: ${one.to === undefined ? 'never answered' : `${one.answer} at ${fix(one.to)} ms`}</title>`
  const line = `<line class="asks" x1="${fix(x(one.from))}" x2="${fix(to)}" y1="${fix(y)}" y2="${fix(y)}"${dash} stroke-width="${crowded ? 1 : 2}">${tip}</line>`
  if (one.answer === 'yes') return line
  if (crowded) return `${line}<circle class="gave-up" cx="${fix(to)}" cy="${fix(y)}" r="2.6"/>`
  const sign = one.answer === 'no' ? '–' : '?'
  return `${line}<circle class="answer" cx="${fix(to)}" cy="${fix(y)}" r="7"/><text class="sign" x="${fix(to)}" y="${fix(y + 4)}" font-size="12" text-anchor="middle">${sign}</text>`
}

function bar({ acquire, release, sure }: Hold, owner: number, { x, laneTop, lane, end, crowded }: Scale): string {
  const left = x(sure[0])
  const width = Math.max(1.5, x(Math.min(sure[1], end)) - left)
  const pad = crowded ? 1 : 9
  const y = laneTop(acquire.owner) + pad
  const height = lane - 2 * pad
  const until = Number.isFinite(sure[1]) ? `${fix(sure[1])} ms` : 'the end'
  const ending =
    release === undefined && acquire.believedUntil !== undefined ? ' (then it knew that it was over, or was dead)' : ''
  const token = acquire.fence === undefined ? '' : `, token ${acquire.fence}`
  const tip = `<title>${escape(acquire.owner)} holds, by its own view, from ${fix(sure[0])} ms to ${until}${ending}${token}</title>`
  const shape = `<rect class="hold o${owner % 8}" x="${fix(left)}" y="${fix(y)}" width="${fix(width)}" height="${fix(height)}" rx="${fix(Math.min(4, width / 3))}">${tip}</rect>`
  if (crowded || acquire.fence === undefined || width < 64) return shape
  const text = acquire.fence.toString()
  const short = text.length > 5 ? `…${text.slice(-4)}` : text
  return `${shape}<text class="on" x="${fix(left + 8)}" y="${fix(y + height / 2 + 4)}" font-size="11">token ${short}</text>`
}

/** Where two of different owners held the same lock, by their own view, at once. */
function clashes(holds: readonly Hold[], { x, top, bottom, end }: Scale, broke: boolean): string[] {
  const parts: string[] = []
  for (const [index, one] of holds.entries()) {
    for (const other of holds.slice(index + 1)) {
      if (one.acquire.owner === other.acquire.owner || one.acquire.lock !== other.acquire.lock) continue
      const from = Math.max(one.sure[0], other.sure[0])
      const to = Math.min(one.sure[1], other.sure[1], end)
      if (to <= from) continue
      const width = Math.max(2, x(to) - x(from))
      const tip = `<title>${escape(one.acquire.owner)} and ${escape(other.acquire.owner)} both hold, by their own view, for ${fix(to - from)} ms</title>`
      parts.push(
        `<rect class="clash ${broke ? 'broke' : 'borne'}" x="${fix(x(from))}" y="${top - 2}" width="${fix(width)}" height="${bottom - top + 4}" rx="3">${tip}</rect>`,
      )
    }
  }
  return parts
}

function stretch({ owner, from, to, label }: Stretch, { x, laneTop, lane }: Scale): string {
  const left = x(from)
  const width = Math.max(2, x(to) - left)
  const y = laneTop(owner) + 5
  const text =
    width < label.length * 6.2
      ? ''
      : `<text class="on-hatch" x="${fix(left + width / 2)}" y="${fix(y + lane / 2 - 1)}" font-size="11" text-anchor="middle">${escape(label)}</text>`
  return `<rect class="hatch" x="${fix(left)}" y="${fix(y)}" width="${fix(width)}" height="${lane - 10}" rx="3" fill="url(#hatch)"><title>${escape(owner)} ${escape(label)} from ${fix(from)} to ${fix(to)} ms</title></rect>${text}`
}

function visit({ owner, to, outcome, fence }: Visit, { x, laneTop, lane }: Scale): string {
  const cx = fix(x(to))
  const cy = fix(laneTop(owner) + lane - 9)
  const token = fence === undefined ? '' : ` with token ${fence}`
  const what = {
    stored: 'stored',
    refused: 'refused: too late',
    clobbered: 'stored over a newer one',
    unfinished: 'never came',
  }
  const tip = `<title>${escape(owner)} writes at ${fix(to)} ms${token}: ${what[outcome]}</title>`
  if (outcome === 'unfinished') return ''
  if (outcome === 'stored') return `<circle class="wrote" cx="${cx}" cy="${cy}" r="3.2">${tip}</circle>`
  const sign = outcome === 'refused' ? '⊘' : '✗'
  return `<g class="${outcome}"><circle cx="${cx}" cy="${cy}" r="7"/><text x="${cx}" y="${fix(Number(cy) + 4)}" font-size="11" text-anchor="middle">${sign}</text>${tip}</g>`
}

interface Placed extends Mark {
  readonly row: number
  readonly anchor: 'start' | 'end'
}

/** Gives each label a row of its own where it would run into another. */
function placeLabels(marks: readonly Mark[], x: (at: number) => number): { placed: Placed[]; rows: number } {
  const taken: [from: number, to: number][][] = []
  const placed = marks.map((one): Placed => {
    const text = labelOf(one)
    const width = text.length * 6.4 + 14
    const at = x(one.at)
    const anchor = at + width > WIDTH - 4 ? 'end' : 'start'
    const span: [number, number] = anchor === 'start' ? [at, at + width] : [at - width, at]
    const free = taken.findIndex((row) => row.every(([from, to]) => span[1] < from || span[0] > to))
    const row = free === -1 ? taken.length : free
    taken[row] = [...(taken[row] ?? []), span]
    return { ...one, row, anchor }
  })
  return { placed, rows: Math.max(taken.length, 1) }
}

function labelOf({ owner, label }: Mark): string {
  return owner === undefined ? label : `${owner}: ${label}`
}

function mark(one: Placed, { x, laneTop, lane, bottom }: Scale): string {
  const at = x(one.at)
  const y = 14 + one.row * LABEL_ROW
  const to = one.owner === undefined ? bottom : laneTop(one.owner) + lane / 2
  const dx = one.anchor === 'start' ? 6 : -6
  const sign = one.kind === 'fault' ? '⚡' : one.kind === 'healed' ? '↻' : '›'
  const dot = one.owner === undefined ? '' : `<circle class="dot" cx="${fix(at)}" cy="${fix(to)}" r="4"/>`
  return `<g class="mark ${one.kind}"><line x1="${fix(at)}" x2="${fix(at)}" y1="${y - 9}" y2="${fix(to)}"/>${dot}<text x="${fix(at + dx)}" y="${y}" font-size="12" text-anchor="${one.anchor}">${sign} ${escape(labelOf(one))}</text></g>`
}

/** The next of 1, 2, 5, 10, 20, 50 … */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power
}
