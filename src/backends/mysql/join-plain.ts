import { block, NO_ROWS } from './block.js'
import { encodeHolder } from './holder.js'
import { AGAIN, busySql, COLUMNS, type Joining, ownColumns, stripesOf } from './join-sql.js'
import { micros, NOW, text } from './sql-text.js'
import type { Tables } from './tables.js'

/** A mutex that is waited for, by itself: the usual join. */
export function isPlain({ request, simple }: Joining): boolean {
  return simple && request.wait && !request.takeover
}

/**
 * The usual joins on MariaDB, in one compound statement. Like `joinSql`, but all or none: where one of the lines' locks is
 * taken nobody stands, no row comes back, and the longer way is gone. So the rows can be plain values, which cost the
 * server half of what a selection among them does. `further` is read after the commit.
 */
export function plainJoinSql(tables: Tables, items: readonly Joining[], further: readonly string[]): string {
  const stripes = stripesOf(items)
  const holder = encodeHolder(items[0]!.request.holder)
  return block([
    'START TRANSACTION',
    `SELECT COUNT(*) INTO @holdfast_got FROM ${tables.stripe} WHERE id IN (${stripes.join(',')}) FOR UPDATE SKIP LOCKED`,
    busySql(tables, items),
    // A client's tickets mostly have one holder between them: it goes over the wire once.
    `SET @holdfast_now = ${NOW}, @holdfast_holder = ${text(holder)}`,
    `IF @holdfast_got = ${stripes.length} THEN ${insertSql(tables, items, holder)}; ELSE ${NO_ROWS}; END IF`,
    'COMMIT',
    ...further,
  ])
}

function insertSql(tables: Tables, items: readonly Joining[], shared: string): string {
  const seen = new Set<string>()
  const rows = items.map(({ request, line, stripe }) => {
    const encoded = encodeHolder(request.holder)
    const holder = encoded === shared ? '@holdfast_holder' : text(encoded)
    const waitTtl = micros(request.waitTtlMs)
    // Of several tickets of one line only the first can be granted at once.
    const lease = seen.has(line)
      ? waitTtl
      : `IF(FIND_IN_SET(${stripe},@holdfast_busy),${waitTtl},${micros(request.ttlMs)})`
    seen.add(line)
    return `(${text(line)},${text(request.id)},1,1,@holdfast_now+INTERVAL ${lease} MICROSECOND,@holdfast_now,${holder})`
  })
  const busy = 'FIND_IN_SET(CRC32(line) & 65535, @holdfast_busy) > 0'
  return `INSERT INTO ${tables.ticket} ${COLUMNS} VALUES ${rows.join(',')} ${AGAIN} RETURNING ${ownColumns('')}, ${busy}`
}
