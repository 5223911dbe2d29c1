import { test } from 'vitest'
import { runSchedules } from './schedules.js'

const RUNS = Number(process.env['HOLDFAST_RUNS'] ?? 5_000)

test('no schedule of delays, losses, repetitions, pauses, crashes and closes breaks any primitive ', async () => {
  await runSchedules(RUNS, 0)
}, 240_000)
