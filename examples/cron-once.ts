// A job of several replicas runs once: minHold keeps the others out even when it ends at once.
import { connect } from 'holdfast'

const replicas = await Promise.all([connect(), connect(), connect()])
const ran: number[] = []

await Promise.all(
  replicas.map(async (locks, i) => {
    const lease = await locks.lock('report:2026-11-15').tryAcquire({ minHold: '2s', note: `replica ${i}` })
    if (lease === undefined) return
    ran.push(i)
    await lease.release()
  }),
)

console.log(`ran ${ran.length} time`)
await Promise.all(replicas.map((locks) => locks.close()))
