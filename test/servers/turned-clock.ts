import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { faketime } from './faketime.js'

/** The wall clock of one server, which a test turns while the server runs (libfaketime). */
export class TurnedClock {
  #seconds: number
  #file: string | undefined

  /** How many seconds it is ahead of the real clock; below 0: behind it. */
  constructor(seconds: number) {
    this.#seconds = seconds
  }

  turn(seconds: number): void {
    this.#seconds = seconds
    if (this.#file !== undefined) writeFileSync(this.#file, `${seconds < 0 ? '' : '+'}${seconds}s\n`)
  }

  /** The environment that makes a server go by this clock; the file that is read for it goes into `directory`. */
  async env(directory: string): Promise<Record<string, string>> {
    await faketime()
    this.#file = join(directory, 'clock')
    this.turn(this.#seconds)
    return {
      // The C library's own malloc goes before jemalloc, which asks for the time while it sets itself up: libfaketime
      // would then ask it for memory, and neither would ever start.
      LD_PRELOAD: `${library()} libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      // A step of the wall clock, not of time itself.
      DONT_FAKE_MONOTONIC: '1',
    }
  }
}

function library(): string {
  for (const architecture of readdirSync('/usr/lib')) {
    const directory = join('/usr/lib', architecture, 'faketime')
    if (/-linux-/.test(architecture) && readdirSync(join('/usr/lib', architecture)).includes('faketime'))
      return join(directory, 'libfaketimeMT.so.1')
  }
  throw new Error('libfaketimeMT.so.1 is in none of the directories of /usr/lib.')
}
