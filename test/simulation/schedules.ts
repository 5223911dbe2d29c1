import fc from 'fast-check'
import { type Fault, type Schedule, type Task, World } from './world.js'

const lines: Task['line'][] = ['mutex', 'other mutex', 'read', 'write', 'one permit', 'two permits', 'both mutexes']
const kinds: Fault['kind'][] = ['pause', 'crash', 'stall', 'close']

function tasks(most: number, of: readonly Task['line'][]): fc.Arbitrary<Task[]> {
  return fc.array(
    fc.record({
      client: fc.nat(3),
      line: fc.constantFrom(...of),
      startMs: fc.nat(8_000),
      holdMs: fc.oneof(fc.nat(50), fc.nat(4_000)),
      waitMs: fc.option(fc.nat(6_000), { nil: undefined, freq: 3 }),
      abortMs: fc.option(fc.nat(6_000), { nil: undefined, freq: 5 }),
      tryOnly: fc.nat(5).map((one) => one === 0),
    }),
    { minLength: 1, maxLength: most },
  )
}

const weather = fc.record({
  slowMs: fc.constantFrom(1, 5, 100, 600),
  dropRequest: fc.constantFrom(0, 0.1, 0.3),
  dropReply: fc.constantFrom(0, 0.1, 0.3),
  repeat: fc.constantFrom(0, 0.2),
  dropPush: fc.constantFrom(0, 0.5, 1),
  failItem: fc.constantFrom(0, 0.1),
})

const faults = fc.array(
  fc.record({ kind: fc.constantFrom(...kinds), client: fc.nat(3), atMs: fc.nat(10_000), forMs: fc.nat(6_000) }),
  { maxLength: 4 },
)

function schedules(of: readonly Task['line'][]): fc.Arbitrary<Schedule> {
  return fc.record({
    seed: fc.integer(),
    clients: fc.integer({ min: 1, max: 4 }),
    weather,
    tasks: tasks(10, of),
    faults,
  })
}

/** Runs that many schedules; a failure prints the seed and the smallest schedule that still fails. */
export async function runSchedules(runs: number, offset: number, of: readonly Task['line'][] = lines): Promise<void> {
  const seed = Number(process.env['HOLDFAST_SEED'] ?? 20_261_115) + offset
  console.log(`simulation: ${runs} schedules, HOLDFAST_SEED=${seed - offset}`)
  await fc.assert(
    fc.asyncProperty(schedules(of), async (schedule) => {
      await new World(schedule).run()
    }),
    { numRuns: runs, seed, endOnFailure: process.env['HOLDFAST_SHRINK'] !== 'true' },
  )
}
