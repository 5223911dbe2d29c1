// One lock, three ways to take it. Runs on the embedded default: a SQLite file on this machine.
import { connect, LockTimeoutError } from 'holdfast'

await using locks = await connect()
const invoice = locks.lock('invoice:42')

// 1. Acquire, run, release: the usual way. The function's own result comes out.
const total = await invoice.use(async (lease) => {
  console.log(`charging under fence ${lease.fence}`)
  return 4_200
})
console.log(`charged ${total}`)

// 2. A lease of your own, given back at the end of the block.
{
  await using lease = await invoice.acquire({ ttl: '30s', wait: '5s' })
  console.log(`held: ${lease.state}`)

  // 3. Not willing to wait: undefined, not an error.
  const second = await invoice.tryAcquire()
  console.log(`a second holder: ${second === undefined ? 'no' : 'yes'}`)
  await invoice.acquire({ wait: '100ms' }).catch((error: unknown) => {
    if (!(error instanceof LockTimeoutError)) throw error
    console.log(error.message)
  })
}
