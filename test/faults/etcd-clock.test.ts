import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect, type Holdfast } from '../../src/index.js'
import { ensure, type Proxy, type Server, startEtcd, startProxy } from '../servers/index.js'
import { temporaryDirectory } from '../servers/watchdog.js'

const run = promisify(execFile)
const TTL = 3_000

/** Holds, steps its own clock when told to, and says what it believes; times are of the clock that never steps. */
const HOLDER = `
  import { writeFileSync } from 'node:fs'
  import { createInterface } from 'node:readline'
  import { connect } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
  const [url, clock] = process.argv.slice(1)
  const locks = await connect(url)
  const lease = await locks.lock('clock').acquire({ ttl: ${TTL} })
  const say = (what) => console.log(JSON.stringify({ what, at: Number(process.hrtime.bigint() / 1_000_000n) }))
  lease.signal.addEventListener('abort', () => say('lost'))
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'release') say(String(await lease.release()))
    else if (line === 'state') say(lease.state)
    else {
      writeFileSync(clock, line)
      const hour = Math.round((Date.now() - started) / 3_600_000)
      say(lease.state + ' ' + hour)
    }
  }
`

interface Said {
  readonly what: string
  readonly at: number
}

class Holder {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #said: Said[] = []

  constructor(library: string, clock: string, url: string) {
    const script = `const started = Date.now()\n${HOLDER}`
    this.#child = spawn(process.execPath, ['--input-type=module', '-e', script, url, clock], {
      env: {
        ...process.env,
        LD_PRELOAD: library,
        // Read anew at every look at the clock; the monotonic clock is left alone, as the kernel leaves it.
        FAKETIME_TIMESTAMP_FILE: clock,
        FAKETIME_NO_CACHE: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        DONT_FAKE_MONOTONIC: '1',
      },
    })
    this.#child.stderr.pipe(process.stderr)
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#said.push(JSON.parse(line) as Said))
  }

  /** What it answers to that. */
  async tell(command: string): Promise<string> {
    const count = this.#said.length
    this.#child.stdin.write(`${command}\n`)
    await expect.poll(() => this.#said.length, { timeout: 10_000 }).toBeGreaterThan(count)
    return this.#said[count]!.what
  }

  heard(what: string): Said | undefined {
    return this.#said.find((one) => one.what === what)
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null) return
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.stdin.end()
    this.#child.kill('SIGKILL')
    await ended
  }
}

describe("a step of the holder's wall clock", () => {
  let server: Server
  let proxy: Proxy
  let others: Holdfast
  let holder: Holder

  beforeEach(async () => {
    server = await startEtcd()
    proxy = await startProxy({ port: server.port })
    others = await connect(server.url)
    const clock = join(temporaryDirectory('clock'), 'offset')
    writeFileSync(clock, '+0')
    // The program itself can only set the clock once; its library reads the file again and again.
    const { stdout } = await run(await ensure('faketime'), ['-f', '+0', 'printenv', 'LD_PRELOAD'])
    holder = new Holder(stdout.trim(), clock, `etcd://127.0.0.1:${proxy.port}`)
    await expect.poll(async () => (await others.view('clock')).length, { timeout: 20_000 }).toBe(1)
  })

  afterEach(async () => {
    await holder.end()
    await others.close()
    await proxy.stop()
    await server.stop()
  })

  test('forward: in doubt until it is renewed, and held again; back: nothing', async () => {
    expect(await holder.tell('+3600')).toBe('uncertain 1')
    await expect.poll(() => holder.tell('state'), { timeout: 10_000 }).toBe('held')
    expect(await holder.tell('-3600')).toBe('held -1')
    // Renewed by the clock that does not step: it outlasts its ttl, whatever the other says.
    const until = performance.now() + 2 * TTL
    while (performance.now() < until) {
      expect(await others.lock('clock').tryAcquire({ ttl: TTL })).toBeUndefined()
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    expect(await holder.tell('state')).toBe('held')
    expect(await holder.tell('release')).toBe('true')
    await (await others.lock('clock').acquire({ ttl: TTL })).release()
  })

  test('back, while it is cut off: that prolongs nothing, it is lost before the next holds', async () => {
    proxy.blackhole()
    await holder.tell('-3600')
    const next = await others.lock('clock').acquire({ ttl: TTL, wait: '30s' })
    const heldAt = Number(process.hrtime.bigint() / 1_000_000n)
    await expect.poll(() => holder.heard('lost') !== undefined, { timeout: 10_000 }).toBe(true)
    expect(holder.heard('lost')!.at).toBeLessThanOrEqual(heldAt)
    await next.release()
  })
})
