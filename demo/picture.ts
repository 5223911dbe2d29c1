import { CLASH_COLOUR, WORKER_COLOURS } from './palette.js'
import { densest, type Round, type Section } from './round.js'

const WIDTH = 1200
const MARGIN = 48
const LABELS = 88
const PLOT_LEFT = MARGIN + LABELS
const PLOT_WIDTH = WIDTH - PLOT_LEFT - MARGIN
const LANE = 20
const PANEL_HEAD = 44
const PANEL_FOOT = 44

const INK = '#1F2933'
const FAINT = '#7B8794'
const RULE = '#E4E7EB'
const GOOD = '#00805E'

/** Draws both rounds, and the first holds of the second one by one, as an SVG text. */
export function drawPicture(bare: Round, locked: Round, shownHolds: number): string {
  const parts: string[] = []
  let y = 96
  y = panel(parts, y, bare, {
    title: 'Without a lock',
    about: 'red: two or more at the counter at the same time',
    ms: Math.max(bare.ms, 1),
    lane: LANE,
  })
  y = panel(parts, y, locked, {
    title: 'Under Holdfast',
    about: 'one at a time, first come, first served',
    ms: Math.max(locked.ms, 1),
    lane: LANE,
  })
  const close = densest(locked.sections, shownHolds)
  y = panel(
    parts,
    y,
    { ...locked, sections: close.sections },
    {
      title: `${close.sections.length} holds in a row`,
      about: `from ${Math.round(close.from)} ms on: the lock goes from hand to hand; the numbers are its fences`,
      ms: Math.max(...close.sections.map((section) => section.to), 1),
      lane: 26,
      oneByOne: true,
    },
  )
  const height = y + 16
  const title = `${locked.workers} processes, one counter`
  return `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${title}" font-family="Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif">
<rect width="${WIDTH}" height="${height}" fill="#FCFCFD"/>
<text x="${MARGIN}" y="52" font-size="26" font-weight="700" fill="${INK}">${title}</text>
<text x="${MARGIN}" y="76" font-size="14" fill="${FAINT}">Each bar is one process between reading the counter and having written it back plus one.</text>
${parts.join('\n')}
</svg>
`
}

interface PanelOptions {
  readonly title: string
  readonly about: string
  readonly ms: number
  readonly lane: number
  readonly oneByOne?: boolean
}

/** Draws one panel from `top` on, and says where the next may start. */
function panel(parts: string[], top: number, round: Round, { title, about, ms, lane, oneByOne }: PanelOptions): number {
  const lanesTop = top + PANEL_HEAD
  const lanesHeight = round.workers * lane
  const x = (at: number): number => PLOT_LEFT + (at / ms) * PLOT_WIDTH
  parts.push(
    `<text x="${MARGIN}" y="${top + 26}" font-size="17" font-weight="700" fill="${INK}">${title}</text>`,
    `<text x="${MARGIN + 9.6 * title.length + 12}" y="${top + 26}" font-size="13" fill="${FAINT}">${about}</text>`,
  )
  if (!oneByOne) parts.push(verdict(round, top + 26))
  parts.push(...axis(ms, x, lanesTop, lanesHeight))
  for (let worker = 0; worker < round.workers; worker += 1) {
    const y = lanesTop + worker * lane
    parts.push(
      `<text x="${PLOT_LEFT - 12}" y="${y + lane / 2 + 4}" font-size="12" text-anchor="end" fill="${FAINT}">process ${worker + 1}</text>`,
      `<line x1="${PLOT_LEFT}" x2="${PLOT_LEFT + PLOT_WIDTH}" y1="${y + lane}" y2="${y + lane}" stroke="${RULE}"/>`,
    )
  }
  if (oneByOne) parts.push(handOver(round.sections, x, lanesTop, lane))
  for (const section of round.sections) parts.push(bar(section, x, lanesTop, lane, oneByOne === true))
  return lanesTop + lanesHeight + PANEL_FOOT
}

function verdict({ expected, counted }: Round, y: number): string {
  const lost = expected - counted
  const colour = lost > 0 ? CLASH_COLOUR : GOOD
  return `<text x="${WIDTH - MARGIN}" y="${y}" font-size="17" font-weight="700" text-anchor="end" fill="${colour}">${lost} of ${expected} updates lost</text>`
}

function bar(section: Section, x: (at: number) => number, top: number, lane: number, labelled: boolean): string {
  const left = x(section.from)
  const width = Math.max(1, x(section.to) - left)
  const y = top + section.worker * lane + 3
  const height = lane - 6
  const colour = section.overlaps ? CLASH_COLOUR : WORKER_COLOURS[section.worker % WORKER_COLOURS.length]!
  const radius = Math.min(3, width / 3)
  const tip = `process ${section.worker + 1}, ${section.from.toFixed(1)} to ${section.to.toFixed(1)} ms${section.fence === undefined ? '' : `, fence ${section.fence}`}`
  const shape = `<rect x="${fix(left)}" y="${fix(y)}" width="${fix(width)}" height="${fix(height)}" rx="${fix(radius)}" fill="${colour}"${section.overlaps ? ' fill-opacity="0.72"' : ''}><title>${tip}</title></rect>`
  const text =
    section.fence === undefined ? '' : section.fence.length > 4 ? `…${section.fence.slice(-3)}` : section.fence
  if (!labelled || text === '') return shape
  // Inside where there is room, else beside it, in its colour.
  const inside = width >= 6.5 * text.length + 2
  const place = inside
    ? `x="${fix(left + width / 2)}" text-anchor="middle" fill="#FFFFFF"`
    : `x="${fix(left + width + 3)}" text-anchor="start" fill="${colour}"`
  return `${shape}<text ${place} y="${fix(y + height / 2 + 4)}" font-size="11" font-weight="600">${text}</text>`
}

/** The way of the lock: along each hold, and across to the next holder. */
function handOver(sections: readonly Section[], x: (at: number) => number, top: number, lane: number): string {
  const points = sections.flatMap((section) => {
    const y = top + section.worker * lane + lane / 2
    return [`${fix(x(section.from))},${fix(y)}`, `${fix(x(section.to))},${fix(y)}`]
  })
  return `<polyline points="${points.join(' ')}" fill="none" stroke="#9AA5B1" stroke-width="1.5" stroke-linejoin="round"/>`
}

function axis(ms: number, x: (at: number) => number, top: number, height: number): string[] {
  const step = niceStep(ms / 8)
  const parts: string[] = []
  for (let at = 0; at <= ms; at += step) {
    const unit = at + step > ms ? ' ms' : ''
    parts.push(
      `<line x1="${fix(x(at))}" x2="${fix(x(at))}" y1="${top}" y2="${top + height + 5}" stroke="${RULE}"/>`,
      `<text x="${fix(x(at))}" y="${top + height + 19}" font-size="11" text-anchor="middle" fill="${FAINT}">${at}${unit}</text>`,
    )
  }
  return parts
}

/** The next of 1, 2, 5, 10, 20, 50 … */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power
}

function fix(value: number): string {
  return String(Math.round(value * 100) / 100)
}
