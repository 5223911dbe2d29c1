// A holder is paused past its lease, wakes up and writes: PostgreSQL itself refuses that write.
//
//   HOLDFAST_URL=postgres://postgres:secret@localhost:5432/postgres node build/examples/fence-guard-postgres.js
import { Holdfast, LockLostError } from 'holdfast'
import { fenceGuard, postgres } from 'holdfast/postgres'
import pg from 'pg'

const url = process.env['HOLDFAST_URL'] ?? 'postgres://postgres:secret@localhost:5432/postgres'
const pool = new pg.Pool({ connectionString: url })
const [worker, other] = [new Holdfast(postgres(pool)), new Holdfast(postgres(pool))]
await Promise.all([worker.ready(), other.ready()])
await pool.query('CREATE TABLE IF NOT EXISTS invoice (id text PRIMARY KEY, total int NOT NULL)')

/** A write of the application, in the application's own transaction: the guard comes first. */
async function save(total: number, fence: bigint): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await fenceGuard(client, 'invoice:42', fence)
    await client.query(
      "INSERT INTO invoice VALUES ('invoice:42', $1) ON CONFLICT (id) DO UPDATE SET total = excluded.total",
      [total],
    )
    await client.query('COMMIT')
    console.log(`fence ${fence}: wrote ${total}`)
  } catch (error) {
    await client.query('ROLLBACK')
    if (!(error instanceof LockLostError)) throw error
    console.log(`fence ${fence}: refused (${error.message})`)
  } finally {
    client.release()
  }
}

// `renew: false` stands for a process that is paused: nobody keeps its lease alive.
const paused = await worker.lock('invoice:42').acquire({ ttl: '1s', renew: false })
await save(100, paused.fence)

const next = await other.lock('invoice:42').acquire()
await save(200, next.fence)

// The first one wakes up, believes itself still alone, and writes.
await save(100, paused.fence)

const { rows } = await pool.query<{ total: number }>("SELECT total FROM invoice WHERE id = 'invoice:42'")
console.log(`the invoice says ${rows[0]?.total}`)

await next.release()
await Promise.all([worker.close(), other.close()])
await pool.end()
