import { bigint, number, type Rows } from '../rows.js'
import type { Tables } from '../tables.js'
import type { Session } from './session.js'
import type { LocalLine } from './ticket.js'

/** How long one wait in the server's queue lasts before it is begun again: only so that no call is endless. */
const WAIT_S = 60

/** Draws a fence. Sent after the locks of the same packet were taken, so it is larger than any that a holder before us drew. */
function drawSql(tables: Tables, mariadb: boolean): string[] {
  if (mariadb) return [`SELECT NEXTVAL(${tables.sequence})`]
  return [
    `INSERT INTO ${tables.draw} (n) VALUES (NULL)`,
    'SELECT LAST_INSERT_ID()',
    `DELETE FROM ${tables.draw} WHERE n < LAST_INSERT_ID()`,
  ]
}

function drawn(results: readonly Rows[], mariadb: boolean): bigint {
  return bigint(results[mariadb ? 0 : 1]?.[0]?.[0])
}

/** Takes the locks that are free, all in one packet. Gives those it got and the fence for them: locks differ, so one will do. */
export async function tryLocks(
  desk: Session,
  tables: Tables,
  mariadb: boolean,
  lines: readonly LocalLine[],
  ttlMs: number,
): Promise<{ got: boolean[]; order: bigint }> {
  const keep = desk.keepSql(ttlMs)
  const locks = `SELECT ${lines.map(({ lock }) => `GET_LOCK('${lock}', 0)`).join(',')}`
  const statements = [...(keep === undefined ? [] : [keep]), locks, ...drawSql(tables, mariadb)]
  try {
    const results = await desk.run(statements.join(';'), 'taking a lock')
    const [taken, ...rest] = keep === undefined ? results : results.slice(1)
    const got = lines.map((_, i) => number(taken?.[0]?.[i]) === 1)
    return { got, order: drawn(rest, mariadb) }
  } catch (error) {
    // What it got before it failed must not be kept: nobody would know of it.
    await unlock(desk, lines).catch(() => desk.end())
    throw error
  }
}

/** Stands in the server's queue for one lock. Undefined: the wait was cut off. */
export async function waitForLock(
  session: Session,
  tables: Tables,
  mariadb: boolean,
  line: LocalLine,
  ttlMs: number,
): Promise<bigint | undefined> {
  // No limit of the server's on statements may end a wait; and it must hear from us in time once it is over.
  const keep = session.keepSql(ttlMs)
  const unlimited = mariadb ? ['SET SESSION max_statement_time = 0'] : []
  const before = [...unlimited, ...(keep === undefined ? [] : [keep])]
  const statements = [...before, `SELECT GET_LOCK('${line.lock}', ${WAIT_S})`, ...drawSql(tables, mariadb)]
  const results = await session.run(statements.join(';'), 'waiting for a lock', (WAIT_S + 10) * 1_000)
  const [taken, ...rest] = results.slice(before.length)
  return number(taken?.[0]?.[0]) === 1 ? drawn(rest, mariadb) : undefined
}

/** Lets go of locks; for each, whether this session had it. */
export async function unlock(session: Session, lines: readonly LocalLine[]): Promise<boolean[]> {
  const [rows] = await session.run(
    `SELECT ${lines.map(({ lock }) => `RELEASE_LOCK('${lock}')`).join(',')}`,
    'releasing a lock',
  )
  return lines.map((_, i) => number(rows?.[0]?.[i]) === 1)
}
