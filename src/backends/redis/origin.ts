import type { Origin } from '../../core/backend.js'
import type { Keys } from './keys.js'
import { runScript } from './run-script.js'
import type { Script } from './scripts.js'
import type { Wire } from './wire.js'

/** Which run of the server this is, since when, and what it knows of the orders given. */
export async function readOrigin(wire: Wire, keys: Keys): Promise<Origin> {
  const [info, last, learnt, time] = await Promise.all([
    wire.send(['INFO', 'server']),
    wire.send(['GET', keys.last(0)]),
    wire.send(['GET', keys.mark()]),
    wire.send(['TIME']),
  ])
  const text = String(info)
  const run = /run_id:(\w+)/.exec(text)?.[1]
  // By its wall clock: below 0 when that was turned back.
  const up = /uptime_in_seconds:(-?\d+)/.exec(text)?.[1]
  if (run === undefined || up === undefined) throw new Error('INFO server tells neither run_id nor uptime_in_seconds')
  const [seconds, micros] = time as [unknown, unknown]
  const clock = BigInt(String(seconds)) * 1_000_000n + BigInt(String(micros))
  return { run, clock, upMs: Number(up) * 1000, last: BigInt((last as string | null) ?? '0'), learnt: learnt === run }
}

/** Makes sure that no order at or below the floor is given from now on. */
export async function raiseFloor(wire: Wire, keys: Keys, script: Script, floor: bigint, run: string): Promise<void> {
  const rest = ['2', keys.last(0), keys.mark(), String(floor), run]
  await runScript(wire, script, rest, keys.last(0))
}
