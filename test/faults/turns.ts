import type { Holdfast } from '../../src/core/holdfast.js'

/** Many take turns at few lines; throws when two were inside at once or a fence went back. */
export async function takeTurns(clients: readonly Holdfast[], rounds: number): Promise<void> {
  const inside = new Map<string, bigint>()
  const newest = new Map<string, bigint>()
  const one = async (locks: Holdfast, i: number): Promise<void> => {
    const name = `turn ${i % 3}`
    await locks.lock(name).use(async ({ fence }) => {
      if (inside.has(name)) throw new Error(`two hold ${name}`)
      if ((newest.get(name) ?? 0n) >= fence) throw new Error(`the fence of ${name} went back`)
      inside.set(name, fence)
      newest.set(name, fence)
      await new Promise((resolve) => setImmediate(resolve))
      inside.delete(name)
    })
  }
  await Promise.all(clients.flatMap((locks) => Array.from({ length: rounds }, (_, i) => one(locks, i))))
}
