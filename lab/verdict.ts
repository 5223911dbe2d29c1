import { check, type Violation } from './checker/check.js'
import type { Operation } from './checker/history.js'
import { lines, minimise } from './checker/minimise.js'
import type { Recipe } from './recipe.js'
import type { Evidence } from './situation.js'

export type Word = 'safe' | 'unsafe' | 'hangs' | 'not offered'

/** What the evidence comes to. */
export interface Verdict {
  readonly word: Word
  /** In words that somebody who has not read the code understands. */
  readonly why: string
  /** The few operations that show it, as text; none where there is nothing to show. */
  readonly shownBy: readonly string[]
  /** When, for the picture: from the moment at which it was broken. */
  readonly brokenAt?: number
}

/**
 * Decides. What breaks the promise of a lock comes first, then what breaks the hope for one. Two who believe to
 * hold at once are the break of an unfenced lock. With tokens a lock promises less and more: two may believe for
 * a moment, but what the later one has touched the earlier one cannot write any more; the register says whether
 * that was so.
 */
export function judge(recipe: Recipe, evidence: Evidence): Verdict {
  if (evidence.notOffered !== undefined) return { word: 'not offered', why: evidence.notOffered, shownBy: [] }
  const violation = check(evidence.history)
  const { lostUpdates, stale } = evidence.tally
  const facts = evidence.facts.length === 0 ? '' : ` (${evidence.facts.join(', ')})`
  if (violation?.kind === 'fence went back' || violation?.kind === 'passed in line')
    return unsafe(evidence, violation, violation.what)
  if (violation?.kind === 'two holders' && recipe.fenced !== true) {
    return unsafe(evidence, violation, `${twoHolders(violation)}${harm(lostUpdates)}${facts}`)
  }
  if (lostUpdates > 0) {
    const clobbered = evidence.visits.find(({ outcome }) => outcome === 'clobbered')
    const why = `${clobbered?.owner ?? 'One'} wrote under a lock that it no longer had${harm(lostUpdates)}${facts}`
    return { word: 'unsafe', why, shownBy: lines(evidence.history), ...at(clobbered?.to) }
  }
  if (evidence.hangs !== undefined) return { word: 'hangs', why: `${evidence.hangs}${facts}`, shownBy: [] }
  const refused = stale > 0 ? `the register refused ${counted(stale, 'late write')} by the token` : ''
  const why = [refused, ...evidence.facts].filter((text) => text !== '').join(', ')
  return { word: 'safe', why: why === '' ? 'one holder at a time, and everybody was served' : why, shownBy: [] }
}

function unsafe(evidence: Evidence, violation: Violation, why: string): Verdict {
  const few = minimise(evidence.history, violation)
  return { word: 'unsafe', why, shownBy: lines(few), ...at(latestAnswer(few)) }
}

function twoHolders({ shownBy }: Violation): string {
  const owners = [...new Set(shownBy.map(({ owner }) => owner))]
  return `${owners.join(' and ')} held it at the same time`
}

function harm(lostUpdates: number): string {
  return lostUpdates === 0
    ? ''
    : `, and ${counted(lostUpdates, 'update')} of the register ${lostUpdates === 1 ? 'was' : 'were'} lost`
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

function latestAnswer(history: readonly Operation[]): number | undefined {
  const answers = history.filter(({ call, answer }) => call === 'acquire' && answer === 'yes').map(({ to }) => to ?? 0)
  return answers.length === 0 ? undefined : Math.max(...answers)
}

function at(brokenAt: number | undefined): { brokenAt?: number } {
  return brokenAt === undefined ? {} : { brokenAt }
}
