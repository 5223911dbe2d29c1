import { test } from 'vitest'
import { runSchedules } from './schedules.js'

const RUNS = Number(process.env['HOLDFAST_RUNS'] ?? 5_000)

test('no schedule breaks one contended mutex, or a group beside it', async () => {
  await runSchedules(RUNS, 1, ['mutex', 'mutex', 'mutex', 'both mutexes'])
}, 240_000)
