import type { Connection as CallbackConnection } from 'mysql2'
import type { Connection } from 'mysql2/promise'
import { ConfigError, LockLostError } from '../../core/errors.js'
import { checkPrefix, PREFIX } from './schema.js'

/**
 * Makes the writes of a transaction safe against a holder that was paused: call it first in the application's own
 * transaction. It throws `LockLostError` when a newer fence has been seen for this resource (then roll back);
 * otherwise nobody with an older one gets past until the transaction ends.
 */
export async function fenceGuard(
  connection: Connection | CallbackConnection,
  resource: string,
  fence: bigint,
  options: { readonly prefix?: string } = {},
): Promise<void> {
  const table = `${checkPrefix(options.prefix ?? PREFIX)}fence`
  const bytes = Buffer.from(resource, 'utf8')
  if (bytes.length === 0 || bytes.length > 1024) throw new ConfigError('A resource is named by 1 to 1024 bytes.')
  const open =
    'promise' in connection && typeof connection.promise === 'function'
      ? connection.promise()
      : (connection as Connection)
  // The row's lock is held from here to the end of the transaction, so two guards of one resource cannot pass at once.
  await open.query(
    `INSERT INTO ${table} (resource, fence) VALUES (?, ?) ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))`,
    [bytes, fence.toString()],
  )
  // A locking read: a plain one would answer from the transaction's snapshot, which may be older than the lock.
  const sql = `SELECT CAST(fence AS CHAR) FROM ${table} WHERE resource = ? FOR UPDATE`
  const [rows] = await open.query({ sql, rowsAsArray: true }, [bytes])
  const [[newest] = []] = rows as unknown as string[][]
  if (newest === undefined || BigInt(newest) <= fence) return
  throw new LockLostError(
    `Fence ${fence} of '${resource}' is too old: ${newest} has written. Roll the transaction back.`,
  )
}
