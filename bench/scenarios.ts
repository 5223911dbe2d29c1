import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import {
  asLocker,
  type Contender,
  type Drain,
  type Hot,
  type Locker,
  type Pairs,
  type Runner,
  type StoreBench,
} from './contender.js'

export const PROCESSES = 2
export const DRAIN_WAITERS = 50
export const HOT_WAITERS = 20
export const HOT_MS = 3_000
/**
 * Before a process waits for the drain or the hot key it takes a name of its own, then several with two who take turns.
 * Programs in other languages do the same: the JVM has a compiler, too.
 */
export const WARM_UP_ALONE_MS = 500
export const WARM_UP_IN_TURNS_MS = 1_000
export const WARM_UP_NAMES = 8
/** Everyone has asked; so long those who ask over a network, or poll, have to stand in line. */
export const STAND_IN_LINE_MS = 500
const DRAIN_LIMIT_MS = 20_000
const SHORT_DRAIN_MS = 2_000
const DRAINS = 5

const LAPS = 40
const LAP_MS = 50
const WARM_UP_LAPS = 20

/**
 * Pairs a second with this many in flight, each on a name of its own. The contenders take turns in short laps, so that
 * a machine that is busy for a while, or has client and server on one core for a while, has that for all of them; and
 * each round begins with another, so that nobody always comes after the same. Each one's middle lap counts.
 */
export async function pairs(
  lockers: ReadonlyMap<string, Locker | Runner>,
  inFlight: number,
): Promise<Map<string, Pairs>> {
  const laps = new Map<string, Pairs[]>()
  // Steady state is what is measured: the first laps are for the compiler.
  for (let round = -WARM_UP_LAPS; round < LAPS; round += 1) {
    for (const [name, locker] of turned([...lockers], round + WARM_UP_LAPS)) {
      const done = 'pairs' in locker ? await locker.pairs(inFlight, LAP_MS) : await lap(locker, inFlight)
      if (round >= 0) laps.set(name, [...(laps.get(name) ?? []), done])
    }
  }
  return new Map([...laps].map(([name, all]) => [name, middle(all)]))
}

function turned<T>(list: readonly T[], by: number): T[] {
  const first = by % list.length
  return [...list.slice(first), ...list.slice(0, first)]
}

async function lap(locker: Locker, inFlight: number): Promise<Pairs> {
  let count = 0
  const from = performance.now()
  const cpu = process.cpuUsage()
  const until = from + LAP_MS
  await Promise.all(
    Array.from({ length: inFlight }, async (_, i) => {
      while (performance.now() < until) {
        const release = await locker.acquire(`bench:${inFlight}:${i}`)
        await release()
        count += 1
      }
    }),
  )
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: (count / (performance.now() - from)) * 1_000, cpuMicros: (user + system) / count }
}

function middle(laps: readonly Pairs[]): Pairs {
  const of = (pick: (one: Pairs) => number): number => {
    const sorted = laps.map(pick).sort((a, b) => a - b)
    return (sorted[(LAPS - 1) >> 1]! + sorted[LAPS >> 1]!) / 2
  }
  return { perSecond: of(({ perSecond }) => perSecond), cpuMicros: of(({ cpuMicros }) => cpuMicros) }
}

/** What a worker process is told to do; see worker.ts. */
export interface Job {
  readonly store: string
  readonly contender: string
  readonly url: string
  readonly scenario: 'drain' | 'hot'
}

/** What it reports when it is done. */
export interface Report {
  readonly served: number
  readonly holdMs: number
  /** When the last was served, on the machine's monotonic clock: closing and exiting are not part of it. */
  readonly endedAt: number
  readonly counts: readonly number[]
}

/** The monotonic clock that all processes of this machine share, in ms. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/**
 * The contenders drain in turns, like laps. A drain that is over soon is repeated, and the middle one counts: one
 * hiccup of the machine is not the store's.
 */
export async function drains(
  store: StoreBench,
  contenders: readonly Contender[],
  url: string,
): Promise<Map<string, Drain>> {
  const all = new Map<Contender, Drain[]>(contenders.map((contender) => [contender, []]))
  for (let round = 0; round < DRAINS; round += 1) {
    for (const [contender, done] of all) {
      if ((done[0]?.ms ?? 0) > SHORT_DRAIN_MS) continue
      done.push(await (contender.drain === undefined ? drainOnce(store, contender, url) : contender.drain(url)))
    }
  }
  const middleOf = (done: Drain[]): Drain => done.sort((a, b) => a.ms / a.idealMs - b.ms / b.idealMs)[done.length >> 1]!
  return new Map([...all].map(([{ name }, done]) => [name, middleOf(done)]))
}

/** All waiters stand behind one holder; how long until the last of them has held for 1 ms. */
async function drainOnce(store: StoreBench, contender: Contender, url: string): Promise<Drain> {
  const locker = asLocker(await contender.open(url))
  const release = await locker.acquire('bench:drain')
  const workers = await startWorkers({ store: store.name, contender: contender.name, url, scenario: 'drain' })
  await new Promise((resolve) => setTimeout(resolve, STAND_IN_LINE_MS))
  const from = sharedNow()
  await release()
  const reports = await finish(workers, DRAIN_LIMIT_MS)
  const ms = Math.max(...reports.map((one) => one.endedAt)) - from
  await locker.close()
  return { served: sum(reports.map((one) => one.served)), ms, idealMs: sum(reports.map((one) => one.holdMs)) }
}

/** One key, many waiters, a fixed time: how often each was served. */
export async function hot(store: StoreBench, contender: Contender, url: string): Promise<Hot> {
  if (contender.hot !== undefined) return await contender.hot(url)
  const workers = await startWorkers({ store: store.name, contender: contender.name, url, scenario: 'hot' })
  const reports = await finish(workers, HOT_MS + DRAIN_LIMIT_MS)
  const counts = reports.flatMap((one) => one.counts)
  return { total: sum(counts), most: Math.max(...counts), least: Math.min(...counts) }
}

async function startWorkers(job: Job): Promise<ChildProcess[]> {
  const path = fileURLToPath(new URL('./worker.js', import.meta.url))
  const workers = Array.from({ length: PROCESSES }, () => fork(path, [JSON.stringify(job)]))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  for (const worker of workers) worker.send('go')
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  return workers
}

async function finish(workers: readonly ChildProcess[], limitMs: number): Promise<Report[]> {
  const reports: Report[] = []
  await Promise.all(
    workers.map(async (worker) => {
      const late = setTimeout(() => worker.kill('SIGUSR2'), limitMs)
      worker.on('message', (message) => void reports.push(message as Report))
      await once(worker, 'exit')
      clearTimeout(late)
    }),
  )
  return reports
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
