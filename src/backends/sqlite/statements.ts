import type Database from 'libsql'
import { COLUMNS } from './ticket.js'

type Connection = Database.Database
type Statement = Database.Statement

/** The head of a line is read this far in the first go: the holder of a mutex, who is next, and a spare. */
export const HEAD = 3

/**
 * Every statement, prepared once. Those that serve a batch take its items as one JSON text: a call into the
 * library costs about as much as the work of ten items.
 */
export interface Statements {
  readonly begin: Statement
  readonly commit: Statement
  readonly rollback: Statement
  readonly joinFree: Statement
  readonly renewFirst: Statement
  readonly leaveAlone: Statement
  readonly heads: Statement
  readonly byId: Statement
  readonly buried: Statement
  readonly ofLine: Statement
  readonly lastOrder: Statement
  readonly insert: Statement
  readonly lease: Statement
  readonly change: Statement
  readonly drop: Statement
  readonly bury: Statement
  readonly between: Statement
  readonly lines: Statement
  readonly page: Statement
  readonly unbury: Statement
}

export function prepare(db: Connection): Statements {
  const text = (sql: string): Statement => db.prepare(sql)
  const rows = (sql: string): Statement => db.prepare(sql).raw()
  return {
    begin: text('BEGIN IMMEDIATE'),
    commit: text('COMMIT'),
    rollback: text('ROLLBACK'),
    joinFree: text(JOIN_FREE),
    renewFirst: text(RENEW_FIRST),
    leaveAlone: rows(LEAVE_ALONE),
    heads: rows(HEADS),
    byId: rows(`SELECT ${of('t')} FROM json_each(?1) j CROSS JOIN tickets t ON t.id = j.value`),
    buried: rows('SELECT t.id, t.until, t.clock FROM json_each(?1) j CROSS JOIN tombstones t ON t.id = j.value'),
    ofLine: rows(`SELECT ${COLUMNS.join(', ')} FROM tickets WHERE line = ?1 AND ord > ?2 ORDER BY ord LIMIT ?3`),
    lastOrder: rows("SELECT seq FROM sqlite_sequence WHERE name = 'tickets'"),
    insert: text(INSERT),
    lease: text(LEASE),
    change: text('UPDATE tickets SET left = ?2, handle = ?3, inbox = ?4, processes = ?5, holder = ?6 WHERE ord = ?1'),
    drop: text('DELETE FROM tickets WHERE ord IN (SELECT value FROM json_each(?1))'),
    bury: text('INSERT OR REPLACE INTO tombstones (id, ttl, until, clock) VALUES (?1, ?2, ?3, ?4)'),
    between: rows(BETWEEN),
    lines: rows('SELECT DISTINCT line FROM tickets WHERE line >= ?1 AND line <> ?2 ORDER BY line LIMIT ?3'),
    page: rows('SELECT ord, id, line, clock, until FROM tickets WHERE ord > ?1 ORDER BY ord LIMIT ?2'),
    unbury: text('DELETE FROM tombstones WHERE clock = ?1 AND until <= ?2'),
  }
}

function of(table: string): string {
  return COLUMNS.map((column) => `${table}.${column}`).join(', ')
}

/**
 * The usual case in one statement, a transaction by itself: joins of lines that nobody stands in.
 * The orders are computed, so that they are known without reading them back. Lines and ids differ within one call.
 */
const JOIN_FREE = `
INSERT INTO tickets (ord, id, line, weight, capacity, ttl, until, clock, joined, inbox, holder)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'tickets') + 1 + key,
  value->>0, value->>1, value->>2, value->>3, value->>4, ?2 + (value->>4), ?3, ?2, ?4, value->>5
FROM json_each(?1)
WHERE NOT EXISTS (SELECT 1 FROM tickets t WHERE t.line = value->>1)
  AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.id = value->>0)`

/** The usual renewal in one statement: of tickets that stand first in their line, so are granted. */
const RENEW_FIRST = `
UPDATE tickets SET until = ?2 + (j.value->>3), ttl = j.value->>3
FROM json_each(?1) j
WHERE tickets.ord = j.value->>0 AND tickets.id = j.value->>1 AND coalesce(tickets.handle, tickets.id) = j.value->>2
  AND tickets.left = 0 AND tickets.clock = ?3 AND tickets.until > ?2
  AND NOT EXISTS (SELECT 1 FROM tickets o WHERE o.line = tickets.line AND o.ord < tickets.ord)`

/** The usual release in one statement: of tickets that nobody waits behind, so there is nobody to tell. */
const LEAVE_ALONE = `
DELETE FROM tickets WHERE ord IN (
  SELECT t.ord FROM json_each(?1) j CROSS JOIN tickets t ON t.ord = j.value->>0
  WHERE t.id = j.value->>1 AND coalesce(t.handle, t.id) = j.value->>2 AND t.left = 0 AND t.clock = ?3 AND t.until > ?2
    AND NOT EXISTS (SELECT 1 FROM tickets o WHERE o.line = t.line AND o.ord <> t.ord))
RETURNING ord`

const HEADS = `
SELECT ${of('t')} FROM json_each(?1) j CROSS JOIN tickets t
ON t.ord IN (SELECT ord FROM tickets WHERE line = j.value ORDER BY ord LIMIT ${HEAD})
ORDER BY t.ord`

const INSERT = `
INSERT INTO tickets (ord, id, line, weight, capacity, ttl, until, clock, joined, inbox, processes, holder)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, ?2, ?3, value->>7, value->>8, value->>9
FROM json_each(?1)`

const LEASE = `
UPDATE tickets SET ttl = j.value->>1, until = j.value->>2, clock = ?2
FROM json_each(?1) j WHERE tickets.ord = j.value->>0`

/** How many tickets of a line stand between two orders: each of an item's own line, from, to. */
const BETWEEN = `
SELECT (SELECT count(*) FROM tickets t WHERE t.line = j.value->>0 AND t.ord >= j.value->>1 AND t.ord < j.value->>2)
FROM json_each(?1) j`
