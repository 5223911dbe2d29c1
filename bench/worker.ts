// A process of many waiters: for the drain and for the hot key.
import { once } from 'node:events'
import { asLocker } from './contender.js'
import {
  DRAIN_WAITERS,
  HOT_MS,
  HOT_WAITERS,
  type Job,
  type Report,
  sharedNow,
  WARM_UP_ALONE_MS,
  WARM_UP_IN_TURNS_MS,
  WARM_UP_NAMES,
} from './scenarios.js'
import { loadStore } from './stores.js'

const job = JSON.parse(process.argv[2]!) as Job
const store = await loadStore(job.store)
const contender = store.contenders.find((one) => one.name === job.contender)!
const locker = asLocker(await contender.open(job.url))
let served = 0
let holdMs = 0
let endedAt = 0
const counts = Array.from({ length: job.scenario === 'hot' ? HOT_WAITERS : DRAIN_WAITERS }, () => 0)

function report(): void {
  const done: Report = { served, holdMs, endedAt, counts }
  process.send!(done, () => process.exit())
}

// The time is over: say what was reached, however far it went.
process.on('SIGUSR2', () => {
  endedAt = sharedNow()
  report()
})

/** What is measured is the waiting, not the compiler: every path is run many times before, alone and in turns. */
async function warmUp(): Promise<void> {
  await takeInTurns(1, 1, WARM_UP_ALONE_MS)
  await takeInTurns(WARM_UP_NAMES, 2, WARM_UP_IN_TURNS_MS)
}

async function takeInTurns(names: number, each: number, ms: number): Promise<void> {
  const until = performance.now() + ms
  await Promise.all(
    Array.from({ length: names * each }, async (_, i) => {
      while (performance.now() < until) {
        const release = await locker.acquire(`bench:warm:${process.pid}:${i % names}`)
        await release()
      }
    }),
  )
}

await warmUp()
process.send!('ready')
await once(process, 'message')

async function waitAndHold(i: number): Promise<void> {
  const release = await locker.acquire(`bench:${job.scenario}`)
  const from = performance.now()
  if (job.scenario === 'drain') await new Promise((resolve) => setTimeout(resolve, 1))
  holdMs += performance.now() - from
  served += 1
  counts[i]! += 1
  await release()
}

const until = performance.now() + HOT_MS
const all = Promise.all(
  counts.map(async (_, i) => {
    do await waitAndHold(i)
    while (job.scenario === 'hot' && performance.now() < until)
  }),
)
process.send!('asked')
await all
endedAt = sharedNow()
await locker.close()
report()
