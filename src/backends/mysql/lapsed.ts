import type { Connections } from './connections.js'
import { affected, bigint } from './rows.js'
import { NOW, texts } from './sql-text.js'
import type { Tables } from './tables.js'

const DOING = 'dropping tickets that had lapsed'
/** The most tickets dropped in one call. */
export const MOST_DROPPED = 500

/**
 * Deletes lapsed tickets and says how many.
 *
 * A ticket counts until it is deleted, and it is deleted under its row's lock, where its lease is compared again.
 * Were a lapsed ticket only overlooked: A's renewal is under way, not yet committed; B does not see it, overlooks
 * A and is granted; the renewal commits and is answered yes. Two holders.
 */
export async function dropOrders(connections: Connections, tables: Tables, orders: readonly bigint[]): Promise<number> {
  if (orders.length === 0) return 0
  // A row that is locked is being renewed or is leaving: either way it is not for us, and nothing to wait for.
  const free = `SELECT ord FROM ${tables.ticket} WHERE ord IN (${orders.join(',')}) AND expires <= ${NOW} FOR UPDATE SKIP LOCKED`
  const [rows = []] = await connections.run(free, DOING)
  if (rows.length === 0) return 0
  const ours = rows.map(([ord]) => bigint(ord)).join(',')
  const [result] = await connections.run(
    `DELETE FROM ${tables.ticket} WHERE ord IN (${ours}) AND expires <= ${NOW}`,
    DOING,
  )
  return affected(result)
}

/** Drops the lapsed tickets of these lines: found without a lock, deleted by key. */
export async function dropLapsed(connections: Connections, tables: Tables, lines: readonly string[]): Promise<void> {
  const sql = `SELECT ord FROM ${tables.ticket} WHERE line IN (${texts(lines)}) AND expires <= ${NOW} LIMIT ${MOST_DROPPED}`
  const [rows = []] = await connections.run(sql, DOING)
  await dropOrders(
    connections,
    tables,
    rows.map(([ord]) => bigint(ord)),
  )
}
