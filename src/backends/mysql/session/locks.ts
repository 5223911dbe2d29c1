import { number } from '../rows.js'
import type { Draw } from './draw.js'
import type { Session } from './session.js'
import type { LocalLine } from './ticket.js'

/** How long one wait in the server's queue lasts before it is begun again: only so that no call is endless. */
const WAIT_S = 60

/** Takes the locks that are free, all in one packet; gives the fence of each that it got. */
export async function tryLocks(
  desk: Session,
  draw: Draw,
  lines: readonly LocalLine[],
  ttlMs: number,
): Promise<(bigint | undefined)[]> {
  const keep = desk.keepSql(ttlMs)
  const locks = lines.map(({ lock }) => lock)
  const take = draw.takeSql(locks, 0)
  try {
    const results = await desk.run(packet(keep, take), 'taking a lock')
    const orders = await draw.read(desk, keep === undefined ? results : results.slice(1))
    desk.assertAlive('taking a lock')
    return orders
  } catch (error) {
    // What it got before it failed must not be kept: nobody would know of it.
    await unlock(desk, lines).catch(() => desk.end())
    throw error
  }
}

/** Stands in the server's queue for one lock, and gives its fence. Undefined: the wait was cut off. */
export async function waitForLock(
  session: Session,
  draw: Draw,
  line: LocalLine,
  ttlMs: number,
): Promise<bigint | undefined> {
  const keep = session.keepSql(ttlMs)
  const sql = packet(keep, draw.takeSql([line.lock], WAIT_S))
  const results = await session.run(sql, 'waiting for a lock', (WAIT_S + 10) * 1_000)
  const [order] = await draw.read(session, keep === undefined ? results : results.slice(1))
  session.assertAlive('waiting for a lock')
  return order
}

function packet(keep: string | undefined, statements: readonly string[]): string {
  return (keep === undefined ? statements : [keep, ...statements]).join(';')
}

/** Lets go of locks; for each, whether this session had it. */
export async function unlock(session: Session, lines: readonly LocalLine[]): Promise<boolean[]> {
  const [rows] = await session.run(
    `SELECT ${lines.map(({ lock }) => `RELEASE_LOCK('${lock}')`).join(',')}`,
    'releasing a lock',
  )
  return lines.map((_, i) => number(rows?.[0]?.[i]) === 1)
}
