import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { ensure } from '../../test/servers/index.js'
import type { Contender, Drain, Hot, Pairs } from '../contender.js'
import { DRAIN_WAITERS, HOT_MS, HOT_WAITERS, PROCESSES, STAND_IN_LINE_MS } from '../scenarios.js'

let program: string | undefined

/** Compiles the Go program of this folder; Debian has the sources of etcd's client. */
export async function buildGoMutex(): Promise<{ remove(): void }> {
  const compiler = await ensure('go', '/usr/share/gocode/src/go.etcd.io/etcd/clientv3/client.go')
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-go-'))
  program = join(directory, 'etcd-mutex')
  await promisify(execFile)(compiler, ['build', '-o', program, '.'], {
    cwd: join(process.cwd(), 'bench', 'foreign', 'etcd-mutex'),
    env: {
      ...process.env,
      GO111MODULE: 'off',
      GOPATH: '/usr/share/gocode',
      GOCACHE: process.env['GOCACHE'] ?? join(tmpdir(), 'holdfast-go-cache'),
    },
  })
  return { remove: () => rmSync(directory, { recursive: true, force: true }) }
}

/** The running program: told what to do line by line, it answers each with a line of JSON. */
class GoProcess {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>

  constructor(url: string) {
    if (program === undefined) throw new Error('the Go program is not built')
    this.#child = spawn(program, [url.replace('etcd://', '')])
    this.#child.stderr.pipe(process.stderr)
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  async ask<T>(command: string): Promise<T> {
    this.#child.stdin.write(`${command}\n`)
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error(`the Go program ended at '${command}'`)
    return JSON.parse(value) as T
  }

  async close(): Promise<void> {
    this.#child.stdin.end()
    if (this.#child.exitCode === null) await once(this.#child, 'exit')
  }
}

/** What the waiters of one process reached. */
interface Waited {
  readonly holdMs: number
  readonly endedAt: number
  readonly counts: readonly number[]
}

/** Starts this many waiters in each process, has them wait, and tells what came of it. */
async function waitInProcesses(
  url: string,
  waiters: number,
  scenario: string,
  meanwhile: () => Promise<unknown>,
): Promise<Waited[]> {
  const running = Array.from({ length: PROCESSES }, () => new GoProcess(url))
  try {
    await Promise.all(running.map((one) => one.ask(`ready ${waiters}`)))
    await Promise.all(running.map((one) => one.ask(`wait ${scenario}`)))
    await meanwhile()
    return await Promise.all(running.map((one) => one.ask<Waited>('result')))
  } finally {
    await Promise.all(running.map((one) => one.close()))
  }
}

async function drain(url: string): Promise<Drain> {
  const holder = new GoProcess(url)
  try {
    await holder.ask('hold')
    let from = 0
    const done = await waitInProcesses(url, DRAIN_WAITERS, 'drain', async () => {
      await new Promise((resolve) => setTimeout(resolve, STAND_IN_LINE_MS))
      from = await holder.ask<number>('release')
    })
    return {
      served: done.flatMap(({ counts }) => counts).length,
      ms: Math.max(...done.map(({ endedAt }) => endedAt)) - from,
      idealMs: done.reduce((sum, { holdMs }) => sum + holdMs, 0),
    }
  } finally {
    await holder.close()
  }
}

async function hot(url: string): Promise<Hot> {
  const done = await waitInProcesses(url, HOT_WAITERS, `hot ${HOT_MS}`, async () => undefined)
  const counts = done.flatMap((one) => one.counts)
  return {
    total: counts.reduce((sum, count) => sum + count, 0),
    most: Math.max(...counts),
    least: Math.min(...counts),
  }
}

/** Go's own concurrency.Mutex, in processes of its own on the same server. */
export const goMutex: Contender = {
  name: "Go's concurrency.Mutex",
  role: 'peer',
  open: async (url) => {
    const running = new GoProcess(url)
    return {
      pairs: (inFlight, ms) => running.ask<Pairs>(`pairs ${inFlight} ${ms}`),
      close: () => running.close(),
    }
  },
  drain,
  hot,
}
