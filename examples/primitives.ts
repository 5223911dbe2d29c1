// Readers and writers, permits, a leader, and a look at the line.
import { connect } from 'holdfast'

await using locks = await connect()

// Many readers or one writer, in the order in which they came.
const document = locks.readWriteLock('document:1')
const readers = await Promise.all([document.read.acquire(), document.read.acquire()])
const writer = await document.write.tryAcquire()
console.log(`a writer beside ${readers.length} readers: ${writer === undefined ? 'no' : 'yes'}`)

// Who holds it, who waits, since when.
const writing = document.write.use(() => 'written')
for (const line of await locks.view('document:1')) {
  for (const ticket of line.tickets) console.log(`${line.kind} ${ticket.state} weight ${ticket.weight}`)
}
await Promise.all(readers.map((lease) => lease.release()))
console.log(await writing)

// Four permits; a big job takes three of them.
const gpu = locks.semaphore('gpu', 4)
await using big = await gpu.acquire({ permits: 3 })
const two = await gpu.tryAcquire({ permits: 2 })
console.log(`two more beside the three of ${big.name}: ${two === undefined ? 'no' : 'yes'}`)

// Runs while leader, and campaigns again when the lead is lost.
const result = await locks.election('scheduler').lead(async (lease) => `led under a ${lease.state} lease`)
console.log(result)
