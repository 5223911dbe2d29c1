import type { Node } from './node.js'

/** What one server answered, and whether its word counts. */
export interface Vote<Answer> {
  readonly answer: Answer
  /** The server was fit when it was asked and when it answered, and was not restarted in between. */
  readonly counts: boolean
}

/** What a server answered, or why it did not; not in it: who was not waited for, since the outcome stood. */
export type Answers<Answer> = Map<Node, Vote<Answer> | Error>

/** For messages: of a server that is not in the answers. */
export const NOT_WAITED_FOR = 'not waited for, since the others had decided'

/** A question to every server. */
export interface Question<Answer> {
  ask(node: Node): Promise<Answer>
  /** Whether the outcome cannot change any more; left out: all are waited for. */
  decided?(answers: Answers<Answer>): boolean
  /** Told of each answer, also of one that comes when the outcome stands or the time is up. */
  answered?(node: Node, vote: Vote<Answer>): void
  /** Told of each that was broken off, in time or not. */
  failed?(node: Node): void
  /** Told of each that has not answered when the time is up. */
  late?(node: Node): void
}

/**
 * Asks every server at once, and resolves as soon as the outcome cannot change any more, all have answered, or the time
 * is up. So a slow or silent minority delays nobody.
 */
export function poll<Answer>(
  nodes: readonly Node[],
  timeoutMs: number,
  question: Question<Answer>,
): Promise<Answers<Answer>> {
  return new Promise((resolve) => new Poll(nodes, timeoutMs, question, resolve).ask())
}

class Poll<Answer> {
  readonly #nodes: readonly Node[]
  readonly #question: Question<Answer>
  readonly #resolve: (answers: Answers<Answer>) => void
  readonly #answers: Answers<Answer> = new Map()
  readonly #timer: NodeJS.Timeout
  #open = true

  constructor(
    nodes: readonly Node[],
    timeoutMs: number,
    question: Question<Answer>,
    resolve: (answers: Answers<Answer>) => void,
  ) {
    this.#nodes = nodes
    this.#question = question
    this.#resolve = resolve
    // One turn after the timer: a busy event loop runs its timers before it reads what has long arrived.
    this.#timer = setTimeout(() => setImmediate(() => this.#open && this.#timeOut()), timeoutMs).unref()
  }

  ask(): void {
    for (const node of this.#nodes) {
      const wasFit = node.unfit === undefined
      this.#question.ask(node).then(
        (answer) => this.#answered(node, { answer, counts: wasFit && node.unfit === undefined }),
        (error: unknown) => this.#failed(node, error),
      )
    }
    if (this.#nodes.length === 0) this.#end()
  }

  #answered(node: Node, vote: Vote<Answer>): void {
    this.#question.answered?.(node, vote)
    if (this.#open) this.#take(node, vote)
  }

  #failed(node: Node, error: unknown): void {
    this.#question.failed?.(node)
    if (this.#open) this.#take(node, error instanceof Error ? error : new Error(String(error)))
  }

  #take(node: Node, answer: Vote<Answer> | Error): void {
    this.#answers.set(node, answer)
    if (this.#answers.size === this.#nodes.length || this.#question.decided?.(this.#answers)) this.#end()
  }

  #timeOut(): void {
    for (const node of this.#nodes) {
      if (this.#answers.has(node)) continue
      this.#answers.set(node, new Error('no answer in time'))
      this.#question.late?.(node)
    }
    this.#end()
  }

  #end(): void {
    this.#open = false
    clearTimeout(this.#timer)
    this.#resolve(this.#answers)
  }
}
