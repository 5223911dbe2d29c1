// What the fence is for: a holder that was paused past its lease writes too late, and is refused.
import { Holdfast } from 'holdfast'
import { memory } from 'holdfast/memory'

/** A resource that remembers the newest fence it has seen. In SQL: … WHERE fence <= $1. */
class Account {
  balance = 100
  #newest = 0n

  write(balance: number, fence: bigint): void {
    if (fence < this.#newest) throw new Error(`refused: fence ${fence} is older than ${this.#newest}`)
    this.#newest = fence
    this.balance = balance
  }
}

const account = new Account()
const locks = new Holdfast(memory(), { ttl: '200ms', renew: false })

const slow = await locks.lock('account').acquire()
const seen = account.balance
// … a long garbage collection, a suspended laptop, a SIGSTOP: the lease runs out meanwhile.
const fast = await locks.lock('account').acquire()
account.write(account.balance - 30, fast.fence)
await fast.release()

try {
  account.write(seen - 50, slow.fence)
} catch (error) {
  console.log((error as Error).message)
}
console.log(`the slow holder's lease is ${slow.state}; the balance is ${account.balance}`)
await locks.close()
