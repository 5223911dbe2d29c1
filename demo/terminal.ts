import { CLASH_COLOUR, WORKER_COLOURS } from './palette.js'
import type { Round } from './round.js'

/** Writes to a terminal in colour and with live progress; to a pipe in plain text. */
export class Terminal {
  readonly #out = process.stdout
  readonly #live: boolean = process.stdout.isTTY
  readonly #colour: boolean = process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === ''
  #drawn = 0
  #drawnAt = 0

  get width(): number {
    return Math.min(this.#live ? (this.#out.columns ?? 80) : 100, 120)
  }

  line(text = ''): void {
    this.#out.write(`${text}\n`)
  }

  bold(text: string): string {
    return this.#colour ? `\u001B[1m${text}\u001B[22m` : text
  }

  dim(text: string): string {
    return this.#colour ? `\u001B[2m${text}\u001B[22m` : text
  }

  paint(hex: string, text: string): string {
    if (!this.#colour) return text
    const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16))
    return `\u001B[38;2;${r};${g};${b}m${text}\u001B[39m`
  }

  /** Draws one bar a worker over the bars drawn before; at most ten times a second. */
  progress(done: readonly number[], times: number, last = false): void {
    if (!this.#live || (!last && performance.now() - this.#drawnAt < 100)) return
    this.#drawnAt = performance.now()
    const room = Math.max(10, Math.min(40, this.width - 30))
    const lines = done.map((count, worker) => {
      const full = Math.round((count / times) * room)
      const bar = this.paint(colourOf(worker), '━'.repeat(full)) + this.dim('─'.repeat(room - full))
      return `  process ${worker + 1}  ${bar} ${count}/${times}`
    })
    if (this.#drawn > 0) this.#out.write(`\u001B[${this.#drawn}A`)
    this.#out.write(lines.map((text) => `${text}\u001B[K\n`).join(''))
    this.#drawn = last ? 0 : lines.length
  }

  /** Who was in there when, for the first `ms` of a round: one row a worker. */
  timeline(round: Round, ms: number): void {
    const room = this.width - 14
    const scale = room / ms
    for (let worker = 0; worker < round.workers; worker += 1) {
      const cells = Array.from({ length: room }, () => this.dim('·'))
      for (const section of round.sections) {
        if (section.worker !== worker || section.from >= ms) continue
        const first = Math.floor(section.from * scale)
        const last = Math.max(first, Math.min(room, Math.ceil(section.to * scale)) - 1)
        const cell = section.overlaps ? this.paint(CLASH_COLOUR, '▒') : this.paint(colourOf(worker), '█')
        for (let at = first; at <= last; at += 1) cells[at] = cell
      }
      this.line(`  process ${worker + 1}  ${cells.join('')}`)
    }
    const end = `${Math.round(ms)} ms`
    this.line(this.dim(`             0${' '.repeat(Math.max(1, room - 1 - end.length))}${end}`))
  }
}

function colourOf(worker: number): string {
  return WORKER_COLOURS[worker % WORKER_COLOURS.length]!
}
