import { randomUUID } from 'node:crypto'
import type { Backend, Guarantees } from '../core/backend.js'
import { Holdfast } from '../core/holdfast.js'
import { checkRequired } from '../core/guarantees.js'
import { UnsupportedError } from '../core/errors.js'
import type { Case, Context, Port, Subject } from './case.js'
import { openPort } from './port.js'
import { startTaker, type Taker } from './takers.js'
import { eventually } from './wait.js'

/** Long enough for a waiter that nobody can see to have asked. */
const UNSEEN_MS = 300

/** Whether a case applies to a store with these guarantees. */
export function applies(one: Case, guarantees: Guarantees, subject: Subject): boolean {
  if (one.processes === true && (guarantees.scope === 'process' || (subject.url ?? subject.module) === undefined))
    return false
  try {
    checkRequired('', guarantees, one.requires)
    return true
  } catch (error) {
    if (error instanceof UnsupportedError) return false
    throw error
  }
}

/** Runs one case against a store; throws when it does not hold, or when it leaves anything behind. */
export async function runCase(one: Case, subject: Subject): Promise<void> {
  const prefix = `conformance/${randomUUID().slice(0, 8)}/`
  const idPrefix = randomUUID().slice(0, 23)
  const closers: (() => Promise<void>)[] = []
  const probe = await subject.makeBackend()
  const { guarantees } = probe
  const context: Context = {
    guarantees,
    ttlMs: Math.max(1_500, guarantees.minTtlMs),
    name: (label = 'x') => prefix + label,
    connect: async (options) => {
      const client = new Holdfast(await subject.makeBackend(), options)
      closers.push(() => client.close())
      await client.ready()
      return client
    },
    port: async (): Promise<Port> => {
      const port = await openPort(await subject.makeBackend(), idPrefix)
      closers.push(() => port.backend.close())
      return port
    },
    stand: async (locks, name, count) => {
      // A quorum keeps no line: who waits there asks again and again, and stands nowhere between.
      if (guarantees.order === 'none' && guarantees.wake === 'poll') {
        await new Promise((resolve) => setTimeout(resolve, UNSEEN_MS))
        return
      }
      await eventually(`${count} stand in line`, async () => (await locks.view(name))[0]?.tickets.length === count)
    },
    taker: async (): Promise<Taker> => {
      const taker = await startTaker(subject)
      closers.push(() => taker.kill())
      return taker
    },
  }
  try {
    await one.run(context)
  } finally {
    await Promise.all(closers.map((close) => close()))
  }
  await assertNothingLeft(probe, prefix)
}

// What crashed on purpose lapses by itself, so this may take a lease.
async function assertNothingLeft(probe: Backend, prefix: string): Promise<void> {
  const client = new Holdfast(probe)
  try {
    await client.ready()
    let left: string[] = []
    const empty = async (): Promise<boolean> => {
      left = []
      for await (const line of client.lines(prefix)) left.push(`${line.kind} ${line.name} (${line.tickets.length})`)
      return left.length === 0
    }
    await eventually('no ticket is left behind by the case', empty).catch((error: unknown) => {
      throw new Error(`tickets are left behind: ${left.join(', ')}`, { cause: error })
    })
  } finally {
    await client.close()
  }
}
