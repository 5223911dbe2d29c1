import { CODE } from './client/errors.js'
import type { LocalLine } from './local-line.js'

/** Lists of lines that somebody waits for: a ticket whose creation alone did not tell where it stands is judged by one. */
export class LineLists {
  readonly #underWay = new Map<LocalLine, Promise<void>>()

  /** Reads each line once: to be called after all creations, so that the lists go out behind them. */
  each(lines: readonly LocalLine[]): Map<LocalLine, Promise<void>> {
    const listed = new Map<LocalLine, Promise<void>>()
    for (const line of new Set(lines)) {
      const list = new Promise<void>((resolve, reject) => {
        line.refresh((error) => {
          if (error === undefined || error.code === CODE.noNode) resolve()
          else reject(error)
        })
      })
      // Whoever needs it waits for it; where no creation was done nobody does.
      list.catch(() => undefined)
      listed.set(line, list)
    }
    return listed
  }

  /** One list for all tickets that turn out to need one at the same time. */
  once(line: LocalLine): Promise<void> {
    let list = this.#underWay.get(line)
    if (list === undefined) {
      list = this.each([line])
        .get(line)!
        .finally(() => this.#underWay.delete(line))
      this.#underWay.set(line, list)
    }
    return list
  }
}
