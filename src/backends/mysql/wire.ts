import type { Connection } from 'mysql2/promise'
import { type Asked, canAsk, type Done, Question } from './question.js'
import type { Rows, Value } from './rows.js'

/** What a promise connection of mysql2 wraps. */
export interface Core extends Partial<Asked> {
  readonly stream?: { unref?(): void }
  query(
    options: { sql: string; rowsAsArray: boolean; typeCast: boolean },
    done: (error: Error | null, result: unknown, fields: unknown) => void,
  ): void
}

export function coreOf(connection: Connection): Core {
  return (connection as unknown as { connection: Core }).connection
}

/** Sends one packet and gives the results of its statements, every value as text. */
export function sendThen(connection: Connection, sql: string, done: Done): void {
  const core = coreOf(connection)
  if (canAsk(core)) core.addCommand(new Question(sql, done))
  else query(core, sql, done)
}

/** By the library's own query. */
export function query(core: Core, sql: string, done: Done): void {
  core.query({ sql, rowsAsArray: true, typeCast: false }, (error, result, fields) => {
    if (error !== null) return done(error, [])
    const several = Array.isArray(fields) && (fields[0] === undefined || Array.isArray(fields[0]))
    done(null, ((several ? result : [result]) as Given[]).map(asText))
  })
}

/** Rows of bytes, or what became of a statement that gives none. */
type Given = readonly (readonly (Buffer | null)[])[] | { readonly affectedRows: number }

function asText(given: Given): Rows {
  if ('affectedRows' in given) return Object.assign([], { affectedRows: given.affectedRows })
  return given.map((row) => row.map((value): Value => value?.toString('utf8') ?? null))
}

export function send(connection: Connection, sql: string): Promise<Rows[]> {
  return new Promise((resolve, reject) => {
    sendThen(connection, sql, (error, results) => (error === null ? resolve(results) : reject(error)))
  })
}

/** Keeps a connection's socket from keeping the process alive. */
export function unref(connection: Connection): void {
  coreOf(connection).stream?.unref?.()
}
