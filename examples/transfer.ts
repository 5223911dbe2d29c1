// Two accounts locked together, all or nothing; transfers both ways cannot deadlock.
import { connect } from 'holdfast'

await using locks = await connect()
const balances = new Map([
  ['alice', 100],
  ['bob', 100],
])

async function transfer(from: string, to: string, amount: number): Promise<void> {
  await locks.all([`account:${from}`, `account:${to}`]).use(async ({ leases }) => {
    const fences = leases.map((lease) => `${lease.name} ${lease.fence > 0n ? 'fenced' : ''}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
    balances.set(from, balances.get(from)! - amount)
    balances.set(to, balances.get(to)! + amount)
    console.log(`${from} → ${to} under ${fences.join(', ')}`)
  })
}

await Promise.all([transfer('alice', 'bob', 30), transfer('bob', 'alice', 10), transfer('alice', 'bob', 5)])
console.log(Object.fromEntries(balances))
