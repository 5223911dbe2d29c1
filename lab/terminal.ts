import { isExpected } from './expectations.js'
import { SIGNS } from './report/words.js'
import type { Cell } from './run.js'
import type { Word } from './verdict.js'

const COLOURS: Readonly<Record<Word, string>> = { safe: '32', unsafe: '31', hangs: '33', 'not offered': '2' }

/** Writes to a terminal in colour and with a progress bar; to a pipe in plain text, a line a recipe. */
export class Terminal {
  readonly #out = process.stdout
  readonly #live: boolean = process.stdout.isTTY
  readonly #colour: boolean = process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === ''
  readonly #total: number
  readonly #each: number
  readonly #seed: number
  readonly #left = new Map<string, number>()
  #done = 0

  /** For so many recipes, in so many situations each. */
  constructor(recipes: number, situations: number, seed: number) {
    this.#seed = seed
    this.#total = recipes * situations
    this.#each = situations
  }

  line(text = ''): void {
    this.#out.write(`${this.#live ? '\r\u001B[K' : ''}${text}\n`)
  }

  /** One more cell is done. What nobody expected is said at once. */
  cell(cell: Cell): void {
    this.#done += 1
    const { recipe, situation, verdict } = cell
    if (!isExpected(cell)) {
      const again = `holdfast lab ${recipe.name} --situation ${situation.name} --seed ${this.#seed}`
      this.line(`${this.paint(verdict.word)}, unexpectedly: ${verdict.why} ${this.dim(`(again: ${again})`)}`)
    }
    const left = (this.#left.get(recipe.name) ?? this.#each) - 1
    this.#left.set(recipe.name, left)
    if (!this.#live) {
      if (left === 0) this.line(`${String(this.#done).padStart(4)}/${this.#total}  ${recipe.name}`)
      return
    }
    const room = Math.max(10, Math.min(40, (this.#out.columns ?? 80) - 46))
    const full = Math.round((this.#done / this.#total) * room)
    const bar = '━'.repeat(full) + this.dim('─'.repeat(room - full))
    this.#out.write(
      `\r\u001B[K${bar} ${this.#done}/${this.#total} ${recipe.name}`.slice(0, (this.#out.columns ?? 80) + 12),
    )
    if (this.#done === this.#total) this.#out.write('\r\u001B[K')
  }

  bold(text: string): string {
    return this.#colour ? `\u001B[1m${text}\u001B[22m` : text
  }

  dim(text: string): string {
    return this.#colour ? `\u001B[2m${text}\u001B[22m` : text
  }

  paint(word: Word, text: string = word): string {
    return this.#colour ? `\u001B[${COLOURS[word]}m${text}\u001B[0m` : text
  }

  /** The verdict table; with signs alone where words do not fit. */
  table(cells: readonly Cell[]): void {
    const recipes = [...new Set(cells.map(({ recipe }) => recipe.name))]
    const situations = [...new Set(cells.map(({ situation }) => situation.title))]
    const first = Math.max(...recipes.map((name) => name.length), 6) + 2
    const wide = !this.#live || (this.#out.columns ?? 80) >= first + situations.length * WORD_WIDTH
    const width = wide ? WORD_WIDTH : 3
    this.line(`${' '.repeat(first)}${situations.map((_, index) => String(index + 1).padEnd(width)).join('')}`)
    for (const name of recipes) {
      const row = situations.map((title) => {
        const cell = cells.find(({ recipe, situation }) => recipe.name === name && situation.title === title)
        if (cell === undefined) return ' '.repeat(width)
        const { word } = cell.verdict
        const odd = isExpected(cell) ? '' : '!'
        const text = `${SIGNS[word]}${wide && word !== 'not offered' ? ` ${word}` : ''}${odd}`
        return this.paint(word, text) + ' '.repeat(Math.max(0, width - text.length))
      })
      this.line(`${name.padEnd(first)}${row.join('')}`)
    }
    this.line()
    for (const [index, title] of situations.entries()) this.line(this.dim(`${String(index + 1).padStart(3)}  ${title}`))
    const signs = (Object.keys(SIGNS) as Word[]).map((word) => this.paint(word, `${SIGNS[word]} ${word}`))
    this.line(`\n     ${signs.join('   ')}   ! not what was expected`)
  }

  /** What broke and what hung, in words. */
  reasons(cells: readonly Cell[]): void {
    for (const name of new Set(cells.map(({ recipe }) => recipe.name))) {
      const bad = cells.filter(
        ({ recipe, verdict }) => recipe.name === name && (verdict.word === 'unsafe' || verdict.word === 'hangs'),
      )
      if (bad.length === 0) continue
      this.line(`\n${this.bold(bad[0]!.recipe.title)}`)
      for (const { situation, verdict } of bad) {
        this.line(`  ${this.paint(verdict.word)} when ${situation.title}: ${verdict.why}`)
      }
    }
  }
}

const WORD_WIDTH = 9
