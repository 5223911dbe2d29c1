import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { faketime } from '../servers/index.js'
import { temporaryDirectory } from '../servers/watchdog.js'

/** A wall clock that a test can step, for the processes that are started with its environment. */
export class SteppedClock {
  readonly file: string
  readonly env: Readonly<Record<string, string>>

  private constructor(file: string, library: string) {
    this.file = file
    this.env = {
      LD_PRELOAD: library,
      // Read anew at every look at the clock; the monotonic clock is left alone, as the kernel leaves it.
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
  }

  static async make(): Promise<SteppedClock> {
    // The program itself can only set the clock once; its library reads the file again and again.
    const { stdout } = await promisify(execFile)(await faketime(), ['-f', '+0', 'printenv', 'LD_PRELOAD'])
    const clock = new SteppedClock(join(temporaryDirectory('clock'), 'offset'), stdout.trim())
    clock.step('+0')
    return clock
  }

  /** Seconds ahead of the true time, or behind: '+3600'. */
  step(offset: string): void {
    writeFileSync(this.file, offset)
  }
}

/** Holds, steps its own clock when told to, and says what it believes; times are of the clock that never steps. */
const HOLDER = `
  const started = Date.now()
  import { writeFileSync } from 'node:fs'
  import { createInterface } from 'node:readline'
  import { connect } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
  const [url, clock] = process.argv.slice(1)
  const locks = await connect(url)
  const lease = await locks.lock('clock').acquire()
  const say = (what) => console.log(JSON.stringify({ what, at: Number(process.hrtime.bigint() / 1_000_000n) }))
  lease.signal.addEventListener('abort', () => say('lost'))
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'release') say(String(await lease.release()))
    else if (line === 'state') say(lease.state)
    else {
      writeFileSync(clock, line)
      const hours = Math.round((Date.now() - started) / 3_600_000)
      say(lease.state + ' ' + hours)
    }
  }
`

interface Said {
  readonly what: string
  readonly at: number
}

/** Another process that holds the lock 'clock', and whose wall clock steps when it is told so. */
export class SteppedHolder {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #said: Said[] = []

  constructor(clock: SteppedClock, url: string) {
    this.#child = spawn(process.execPath, ['--input-type=module', '-e', HOLDER, url, clock.file], {
      env: { ...process.env, ...clock.env },
    })
    this.#child.stderr.pipe(process.stderr)
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#said.push(JSON.parse(line) as Said))
  }

  /** What it answers to '+3600' (a step), 'state' or 'release'. */
  async tell(command: string): Promise<string> {
    const count = this.#said.length
    this.#child.stdin.write(`${command}\n`)
    await expect.poll(() => this.#said.length, { timeout: 10_000 }).toBeGreaterThan(count)
    return this.#said[count]!.what
  }

  heard(what: string): Said | undefined {
    return this.#said.find((one) => one.what === what)
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.stdin.end()
    this.#child.kill('SIGKILL')
    await ended
  }
}
