// A holder that was paused past its lease writes too late, and the database refuses it.
// HOLDFAST_URL=mysql://root:secret@127.0.0.1:3306/test node build/examples/fence-guard-mysql.js
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { fenceGuard } from 'holdfast/mysql'
import { createConnection } from 'mysql2/promise'

const url = process.env['HOLDFAST_URL'] ?? 'mysql://root:secret@127.0.0.1:3306/test'
const locks = await connect(url)
const database = await createConnection(url)
await database.query('CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, balance INT)')
await database.query('REPLACE INTO account VALUES (1, 100)')

async function withdraw(amount: number, fence: bigint): Promise<void> {
  await database.beginTransaction()
  try {
    await fenceGuard(database, 'account:1', fence)
    await database.query('UPDATE account SET balance = balance - ? WHERE id = 1', [amount])
    await database.commit()
    console.log(`fence ${fence}: withdrew ${amount}`)
  } catch (error) {
    await database.rollback()
    console.log(`fence ${fence}: refused, ${(error as Error).message}`)
  }
}

// As if this process had been stopped for two seconds right after it got the lock.
const paused = await locks.lock('account:1').acquire({ ttl: '1s', renew: false })
await sleep(2_000)
await locks.lock('account:1').use((lease) => withdraw(30, lease.fence))
await withdraw(50, paused.fence)

const [rows] = await database.query('SELECT balance FROM account WHERE id = 1')
console.log('balance:', (rows as { balance: number }[])[0]?.balance)
await database.end()
await locks.close()
