import type { Connections } from './connections.js'
import { affected, bigint, flag, type Rows } from './rows.js'
import { fromNow, NOW, texts } from './sql-text.js'
import type { Tables } from './tables.js'

const DOING = 'dropping tickets that had lapsed'
/** The most tickets dropped in one call. */
export const MOST_DROPPED = 500
/** A call that was sent so long ago cannot arrive any more. */
const CALL_LIFE_MS = 60_000

/**
 * Takes lapsed tickets out of their lines and says how many. They are deleted; one whose join may still arrive (`gone`
 * is 3) becomes a tombstone.
 *
 * A ticket counts until it is taken out, and that is done under its row's lock, where its lease is compared again.
 * Were a lapsed ticket only overlooked: A's renewal is under way, not yet committed; B does not see it, overlooks
 * A and is granted; the renewal commits and is answered yes. Two holders.
 */
export async function dropOrders(connections: Connections, tables: Tables, orders: readonly bigint[]): Promise<number> {
  if (orders.length === 0) return 0
  // A row that is locked is being renewed or is leaving: either way it is not for us, and nothing to wait for.
  const free = `SELECT ord, gone = 3 FROM ${tables.ticket} WHERE ord IN (${orders.join(',')}) AND expires <= ${NOW} FOR UPDATE SKIP LOCKED`
  const [rows = []] = await connections.run(free, DOING)
  const dropped = await drop(
    connections,
    ordersOf(rows, false),
    (ours) => `DELETE FROM ${tables.ticket} WHERE gone <> 3 AND ${ours}`,
  )
  const until = fromNow(CALL_LIFE_MS)
  const buried = await drop(
    connections,
    ordersOf(rows, true),
    (ours) => `UPDATE ${tables.ticket} SET line = '', gone = 2, expires = ${until} WHERE gone = 3 AND ${ours}`,
  )
  return dropped + buried
}

async function drop(
  connections: Connections,
  orders: readonly bigint[],
  sql: (ours: string) => string,
): Promise<number> {
  if (orders.length === 0) return 0
  const [result] = await connections.run(sql(`ord IN (${orders.join(',')}) AND expires <= ${NOW}`), DOING)
  return affected(result)
}

function ordersOf(rows: Rows, isBuried: boolean): bigint[] {
  return rows.filter(([, buried]) => flag(buried) === isBuried).map(([ord]) => bigint(ord))
}

/** Drops the lapsed tickets of these lines: found without a lock, taken out by key. */
export async function dropLapsed(connections: Connections, tables: Tables, lines: readonly string[]): Promise<void> {
  const sql = `SELECT ord FROM ${tables.ticket} WHERE line IN (${texts(lines)}) AND expires <= ${NOW} LIMIT ${MOST_DROPPED}`
  const [rows = []] = await connections.run(sql, DOING)
  await dropOrders(
    connections,
    tables,
    rows.map(([ord]) => bigint(ord)),
  )
}
