import { BackendError } from '../../core/errors.js'
import type { Node } from './node.js'
import { type Answers, NOT_WAITED_FOR } from './poll.js'

/** The error that carries each server's answer. `errors`: what is known of them from a count of the votes. */
export function noMajority(
  nodes: readonly Node[],
  majority: number,
  doing: string,
  known: { readonly errors?: ReadonlyMap<Node, string>; readonly answers?: Answers<unknown> } = {},
): BackendError {
  const causes: Error[] = []
  const words = nodes.map((node) => {
    const answer = known.answers?.get(node)
    const error = known.errors?.get(node) ?? (answer instanceof Error ? answer.message : node.unfit)
    const silent = known.answers !== undefined && answer === undefined ? NOT_WAITED_FOR : undefined
    const word = `${node.label}: ${error ?? silent ?? 'ok'}`
    if ((error ?? silent) !== undefined) causes.push(new Error(word))
    return word
  })
  return new BackendError(
    `The quorum failed to ${doing}: ${majority} of ${nodes.length} servers must agree. ${words.join(' · ')}`,
    { retryable: true, cause: new AggregateError(causes, 'what each server answered') },
  )
}
