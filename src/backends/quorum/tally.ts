import type { Standing } from '../../core/backend.js'
import type { Node } from './node.js'
import { type Answers, NOT_WAITED_FOR } from './poll.js'

/** How the servers voted on one ticket. */
export interface Tally {
  /** Granted by servers whose word counts, with the order that each gave. */
  readonly yes: Map<Node, bigint>
  /** Granted, but by a server whose word does not count yet. */
  readonly uncounted: Node[]
  /** A clear no: refused, or gone. */
  readonly no: Node[]
  /** Those of them that found a tombstone, or nothing. */
  readonly gone: Node[]
  /** Failed, or without an answer so far. */
  readonly unknown: Node[]
  readonly errors: Map<Node, string>
}

/** Counts the votes on ticket number `item`. */
export function tally(nodes: readonly Node[], answers: Answers<Standing[]>, item: number): Tally {
  const result: Tally = { yes: new Map(), uncounted: [], no: [], gone: [], unknown: [], errors: new Map() }
  for (const node of nodes) {
    const vote = answers.get(node)
    if (vote === undefined || vote instanceof Error) {
      result.unknown.push(node)
      result.errors.set(node, vote === undefined ? NOT_WAITED_FOR : vote.message)
      continue
    }
    const standing = vote.answer[item]!
    if (standing.state === 'granted') {
      if (vote.counts) result.yes.set(node, standing.order)
      else result.uncounted.push(node)
    } else if (standing.state === 'failed') {
      result.unknown.push(node)
      result.errors.set(node, standing.error.message)
    } else {
      result.no.push(node)
      result.errors.set(node, standing.state === 'gone' ? 'it does not have the ticket' : 'it said no')
      if (standing.state === 'gone') result.gone.push(node)
    }
    if (!vote.counts) result.errors.set(node, `does not count: ${node.unfit ?? 'it was restarted meanwhile'}`)
  }
  return result
}

/** The outcome stands: a majority said yes, or none can any more. */
export function isDecided(votes: Tally, majority: number): boolean {
  return votes.yes.size >= majority || votes.yes.size + votes.unknown.length < majority
}

/** The order that a majority gave to ticket number `item`, where all who gave it one gave the same. */
export function agreedOrder(answers: Answers<Standing[]>, item: number, majority: number): bigint | undefined {
  let order: bigint | undefined
  let yes = 0
  for (const vote of answers.values()) {
    if (vote instanceof Error || !vote.counts) continue
    const standing = vote.answer[item]!
    if (standing.state !== 'granted') continue
    if (order !== undefined && order !== standing.order) return undefined
    order = standing.order
    yes += 1
  }
  return yes >= majority ? order : undefined
}

/** Whether the outcome of ticket number `item` stands: the same, counted without noting who said what. */
export function isSettled(nodes: number, answers: Answers<Standing[]>, item: number, majority: number): boolean {
  let yes = 0
  let unknown = nodes - answers.size
  for (const vote of answers.values()) {
    if (vote instanceof Error) {
      unknown += 1
      continue
    }
    const { state } = vote.answer[item]!
    if (state === 'failed') unknown += 1
    else if (state === 'granted' && vote.counts) yes += 1
  }
  return yes >= majority || yes + unknown < majority
}
