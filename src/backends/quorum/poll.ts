import type { Node } from './node.js'

/** What a server answered, or why it did not. */
export type Answers<Answer> = Map<Node, Answer | Error>

/**
 * Asks every server at once, and resolves as soon as the outcome cannot change any more (`decided`), all have
 * answered, or the time is up. So a slow or silent minority delays nobody. Those that did not answer are not in the map.
 */
export function poll<Answer>(
  nodes: readonly Node[],
  timeoutMs: number,
  ask: (node: Node) => Promise<Answer>,
  decided: (answers: Answers<Answer>) => boolean,
  late?: (node: Node, answer: Answer) => void,
): Promise<Answers<Answer>> {
  return new Promise((resolve) => {
    const answers: Answers<Answer> = new Map()
    let open = true
    const end = (): void => {
      if (!open) return
      open = false
      clearTimeout(timer)
      resolve(answers)
    }
    const timer = setTimeout(end, timeoutMs).unref()
    const take = (node: Node, answer: Answer | Error): void => {
      if (!open) {
        if (!(answer instanceof Error)) late?.(node, answer)
        return
      }
      answers.set(node, answer)
      if (answers.size === nodes.length || decided(answers)) end()
    }
    for (const node of nodes) {
      ask(node).then(
        (answer) => take(node, answer),
        (error: unknown) => take(node, error instanceof Error ? error : new Error(String(error))),
      )
    }
    if (nodes.length === 0) end()
  })
}
