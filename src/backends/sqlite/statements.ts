import type Database from 'libsql'
import { COLUMNS, FROM } from './ticket.js'

type Connection = Database.Database
type Statement = Database.Statement

/** The head of a line is read this far in the first go: the holder of a mutex, who is next, and a spare. */
export const HEAD = 3

/**
 * Every statement, prepared once. Those that serve a batch take its items as one JSON text: a call into the
 * library costs about as much as the work of ten items.
 */
export interface Statements {
  readonly joinFree: Statement
  readonly joinOneFree: Statement
  readonly renewFirst: Statement
  readonly renewOneFirst: Statement
  readonly leaveAlone: Statement
  readonly leaveOneAlone: Statement
  readonly heads: Statement
  readonly byId: Statement
  readonly buried: Statement
  readonly ofLine: Statement
  readonly lastOrder: Statement
  readonly insert: Statement
  readonly lease: Statement
  readonly touch: Statement
  readonly change: Statement
  readonly drop: Statement
  readonly bury: Statement
  readonly between: Statement
  readonly lines: Statement
  readonly page: Statement
  readonly unbury: Statement
  readonly enter: Statement
  readonly clients: Statement
  readonly forget: Statement
}

export function prepare(db: Connection): Statements {
  const text = (sql: string): Statement => db.prepare(sql)
  const rows = (sql: string): Statement => db.prepare(sql).raw()
  return {
    joinFree: text(JOIN_FREE),
    joinOneFree: text(JOIN_ONE_FREE),
    renewFirst: text(RENEW_FIRST),
    renewOneFirst: text(RENEW_ONE_FIRST),
    leaveAlone: text(LEAVE_ALONE),
    leaveOneAlone: text(LEAVE_ONE_ALONE),
    heads: rows(HEADS),
    byId: rows(`SELECT ${COLUMNS} FROM json_each(?1) j CROSS JOIN ${FROM} WHERE t.id = j.value AND t.queued = 1`),
    buried: rows('SELECT t.id, t.until, t.clock FROM json_each(?1) j CROSS JOIN tombstones t ON t.id = j.value'),
    ofLine: rows(`SELECT ${COLUMNS} FROM ${FROM} WHERE t.line = ?1 AND t.ord > ?2 ORDER BY t.ord LIMIT ?3`),
    lastOrder: rows("SELECT seq FROM sqlite_sequence WHERE name = 'tickets'"),
    insert: text(INSERT),
    lease: text(LEASE),
    touch: rows(TOUCH),
    change: text('UPDATE tickets SET left = ?2, handle = ?3, client = ?4, processes = ?5, holder = ?6 WHERE ord = ?1'),
    drop: text('DELETE FROM tickets WHERE ord IN (SELECT value FROM json_each(?1))'),
    bury: text('INSERT OR REPLACE INTO tombstones (id, ttl, until, clock) VALUES (?1, ?2, ?3, ?4)'),
    between: rows(BETWEEN),
    lines: rows('SELECT DISTINCT line FROM tickets WHERE line >= ?1 AND line <> ?2 ORDER BY line LIMIT ?3'),
    page: rows('SELECT ord, id, line, clock, until FROM tickets WHERE ord > ?1 ORDER BY ord LIMIT ?2'),
    unbury: text('DELETE FROM tombstones WHERE clock = ?1 AND until <= ?2'),
    enter: text('INSERT INTO clients (inbox, holder) VALUES (?1, ?2)'),
    clients: rows('SELECT key, inbox FROM clients'),
    forget: text('DELETE FROM clients WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM tickets WHERE client = ?1)'),
  }
}

/**
 * Joins of lines that nobody stands in, alike but for id and line; no line comes twice.
 * The orders are computed, so that they are known without reading them back.
 * Each item is the text 'ID LINE', since a nested array costs three times as much to take apart.
 */
const JOIN_FREE = `
INSERT INTO tickets (ord, id, line, weight, capacity, ttl, until, clock, joined, client, queued)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'tickets') + 1 + j.key, j.id, j.line, ?5, ?6, ?7, ?2 + ?7, ?3, ?2, ?4, 0
FROM (SELECT key, substr(value, 1, instr(value, ' ') - 1) AS id, substr(value, instr(value, ' ') + 1) AS line FROM json_each(?1)) j
WHERE NOT EXISTS (SELECT 1 FROM tickets t WHERE t.line = j.line) AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.id = j.id)`

const JOIN_ONE_FREE = `
INSERT INTO tickets (id, line, weight, capacity, ttl, until, clock, joined, client, queued)
SELECT ?1, ?8, ?5, ?6, ?7, ?2 + ?7, ?3, ?2, ?4, 0
WHERE NOT EXISTS (SELECT 1 FROM tickets t WHERE t.line = ?8) AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.id = ?1)`

/** What those that follow ask of a ticket besides its order and id: never handed over, and neither left nor lapsed. */
const PLAIN = 't.handle IS NULL AND t.left = 0 AND t.clock = ?3 AND t.until > ?2'
/** Several are named by an object of id by order. */
const NAMED = `SELECT t.ord FROM json_each(?1) j CROSS JOIN tickets t ON t.ord = j.key AND t.id = j.value AND ${PLAIN}`
const FIRST = 'NOT EXISTS (SELECT 1 FROM tickets o WHERE o.line = t.line AND o.ord < t.ord)'
const ALONE = 'NOT EXISTS (SELECT 1 FROM tickets o WHERE o.line = t.line AND o.ord <> t.ord)'

const RENEW_FIRST = `UPDATE tickets SET until = ?2 + ?4, ttl = ?4 WHERE ord IN (${NAMED} AND ${FIRST})`
const RENEW_ONE_FIRST = `UPDATE tickets AS t SET until = ?2 + ?4, ttl = ?4 WHERE t.ord = ?1 AND t.id = ?5 AND ${PLAIN} AND ${FIRST}`

const LEAVE_ALONE = `DELETE FROM tickets WHERE ord IN (${NAMED} AND ${ALONE})`
const LEAVE_ONE_ALONE = `DELETE FROM tickets AS t WHERE t.ord = ?1 AND t.id = ?4 AND ${PLAIN} AND ${ALONE}`

const HEADS = `
SELECT ${COLUMNS} FROM json_each(?1) j CROSS JOIN ${FROM}
WHERE t.ord IN (SELECT ord FROM tickets WHERE line = j.value ORDER BY ord LIMIT ${HEAD})
ORDER BY t.ord`

const INSERT = `
INSERT INTO tickets (ord, id, line, weight, capacity, ttl, until, clock, joined, client, processes, holder, queued)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, ?2, ?3, value->>7, value->>8, value->>9, 1
FROM json_each(?1)`

const LEASE = `
UPDATE tickets SET ttl = j.value->>1, until = j.value->>2, clock = ?2
FROM json_each(?1) j WHERE tickets.ord = j.value->>0`

/** Renews tickets that are known to wait, without reading them: in a long line, nearly all renewals are of these. */
const TOUCH = `
UPDATE tickets AS t SET until = ?2 + ?4, ttl = ?4
WHERE t.id IN (SELECT value FROM json_each(?1)) AND t.queued = 1 AND ${PLAIN}
RETURNING ord, id, line`

/** How many tickets of a line stand between two orders: each of an item's own line, from, to. */
const BETWEEN = `
SELECT (SELECT count(*) FROM tickets t WHERE t.line = j.value->>0 AND t.ord >= j.value->>1 AND t.ord < j.value->>2)
FROM json_each(?1) j`
