import { connect } from 'holdfast'
import { type Extra, goal } from './contender.js'

const NAMES = 10_000
const IN_FLIGHT = 250
const ROUNDS = 10
const WARM_UP_ROUNDS = 2

/** What a table has in it, by the store's own account: its rows, its kB, and whatever else tells. */
export type TableSize = Readonly<Record<string, number>> & { readonly rows: number; readonly kB: number }

/** 100,000 holds on 10,000 names: what is left in the table. */
export async function growth(url: string, look: () => Promise<TableSize>): Promise<{ extra: Extra; after: TableSize }> {
  const locks = await connect(url)
  const round = async (): Promise<void> => {
    let next = 0
    const worker = async (): Promise<void> => {
      while (next < NAMES) await locks.lock(`growth:${next++}`).use(async () => {})
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
  }
  let before: TableSize = { rows: 0, kB: 0 }
  for (let i = 1; i <= ROUNDS; i += 1) {
    await round()
    if (i === WARM_UP_ROUNDS) before = await look()
  }
  const after = await look()
  await locks.close()
  const values: Extra['values'] = {}
  for (const [what, count] of Object.entries(before)) {
    values[`${what} after ${WARM_UP_ROUNDS * NAMES}`] = count
    values[`${what} after ${ROUNDS * NAMES}`] = after[what] ?? 0
  }
  return {
    extra: {
      title: '100,000 holds on 10,000 names',
      values,
      goals: [goal('size of the table, 100,000 holds against 20,000', after.kB / before.kB, '≤', 1.5)],
    },
    after,
  }
}
