// A child process with one client of the store under test; see takers.ts for what it can be asked.
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from '../connect.js'
import type { Backend } from '../core/backend.js'
import { Holdfast } from '../core/holdfast.js'
import type { Lease } from '../core/lease.js'
import type { Lock } from '../core/lock.js'
import type { TakerAsk, TakerCalls } from './takers.js'

const target = JSON.parse(process.argv[2] ?? '{}') as { url?: string; module?: string }
const client = await open()
const leases = new Map<string, Lease>()

async function open(): Promise<Holdfast> {
  if (target.url !== undefined) return await connect(target.url)
  const { default: makeBackend } = (await import(target.module!)) as { default: () => Backend | Promise<Backend> }
  return new Holdfast(await makeBackend())
}

function lockOf({ name, mode = 'mutex' }: TakerAsk): Lock {
  return mode === 'mutex' ? client.lock(name) : client.readWriteLock(name)[mode]
}

function keep(key: string, lease: Lease): { fence: string; at: string } {
  leases.set(key, lease)
  lease.signal.addEventListener('abort', () => process.send?.({ lost: key }))
  return { fence: lease.fence.toString(), at: now() }
}

function now(): string {
  return process.hrtime.bigint().toString()
}

function asserts(lease: Lease): boolean {
  try {
    lease.assertHeld()
    return true
  } catch {
    // The answer that was asked for: it does not hold.
    return false
  }
}

const calls: { [K in keyof TakerCalls]: (ask: Parameters<TakerCalls[K]>[0]) => Promise<ReturnType<TakerCalls[K]>> } = {
  acquire: async (ask) => keep(ask.key, await lockOf(ask).acquire(ask.options)),
  tryAcquire: async (ask) => {
    const lease = await lockOf(ask).tryAcquire(ask.options)
    return lease === undefined ? null : keep(ask.key, lease)
  },
  release: async ({ key }) => {
    // Read before the store is told: the next holder's time must come after.
    const at = now()
    return { released: await leases.get(key)!.release(), at }
  },
  state: async ({ key }) => {
    const lease = leases.get(key)!
    const held = asserts(lease)
    return { state: lease.state, aborted: lease.signal.aborted, asserts: held, fence: lease.fence.toString() }
  },
  busy: async ({ ms, key }) => {
    const lease = leases.get(key)!
    const until = performance.now() + ms
    while (performance.now() < until);
    const held = asserts(lease)
    return { state: lease.state, asserts: held }
  },
  bump: async (ask) => {
    const fences: string[] = []
    for (let i = 0; i < ask.times; i += 1) {
      await lockOf(ask).use(async (lease) => {
        const count = Number(readFileSync(ask.file, 'utf8'))
        await new Promise((resolve) => setImmediate(resolve))
        writeFileSync(ask.file, String(count + 1))
        fences.push(lease.fence.toString())
      }, ask.options)
    }
    return { fences }
  },
  serialize: async ({ key }) => ({ text: await leases.get(key)!.serialize() }),
  adopt: async ({ key, text }) => {
    const lease = await client.adopt(text)
    return { fence: keep(key, lease).fence }
  },
}

async function answer(message: { id: number; call: keyof TakerCalls; ask: never }): Promise<void> {
  try {
    process.send?.({ id: message.id, result: await calls[message.call](message.ask) })
  } catch (error) {
    const { code, message: text } = error as Error & { code?: string }
    process.send?.({ id: message.id, error: { code, message: text } })
  }
}

process.on('message', (message) => void answer(message as never))
// The parent is gone: so is the reason to be here.
process.on('disconnect', () => process.exit())
process.send?.({})
