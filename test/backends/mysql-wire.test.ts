import { createConnection, type Connection } from 'mysql2/promise'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { affected } from '../../src/backends/mysql/rows.js'
import { isAnswer } from '../../src/backends/mysql/store-error.js'
import { canAsk } from '../../src/backends/mysql/question.js'
import { coreOf, query, send } from '../../src/backends/mysql/wire.js'
import { type Server, startMariadb } from '../servers/index.js'

let server: Server
let connection: Connection

beforeAll(async () => {
  server = await startMariadb()
  connection = await createConnection({ uri: server.url, multipleStatements: true })
})
afterAll(async () => {
  connection.destroy()
  await server.stop()
})

test('values of any length come as their text, and null as null', async () => {
  const lengths = [0, 1, 250, 251, 252, 65_535, 65_536, 100_000]
  const columns = lengths.map((n) => `REPEAT('x', ${n})`)
  const [[row] = []] = await send(connection, `SELECT ${columns.join(',')}, NULL, 12345678901234567890, x'c3a9e28098'`)
  expect(row!.slice(0, lengths.length).map((value) => value!.length)).toEqual(lengths)
  expect(row!.slice(lengths.length)).toEqual([null, '12345678901234567890', 'é‘'])
})

test('every statement has its result: rows, no rows, and how many were changed', async () => {
  const results = await send(
    connection,
    'CREATE TEMPORARY TABLE few (n INT);INSERT INTO few VALUES (1),(2),(3);SELECT n FROM few WHERE n > 5;SELECT n, -n FROM few;DELETE FROM few WHERE n > 1',
  )
  expect(results.map(affected)).toEqual([0, 3, 0, 0, 2])
  expect([...results[2]!]).toEqual([])
  expect([...results[3]!]).toEqual([
    ['1', '-1'],
    ['2', '-2'],
    ['3', '-3'],
  ])
})

test('a thousand columns, and a row of many packets', async () => {
  const columns = Array.from({ length: 1_000 }, (_, n) => String(n))
  const [[row] = []] = await send(connection, `SELECT ${columns.join(',')}`)
  expect(row).toEqual(columns)
  const [rows = []] = await send(connection, 'SELECT seq FROM seq_1_to_20000')
  expect(rows).toHaveLength(20_000)
  expect(rows.at(-1)).toEqual(['20000'])
})

test('an error in the middle is the answer, and the next question has its own', async () => {
  const failed = await send(connection, 'SELECT 1;SELECT nothing FROM nowhere;SELECT 2').catch(
    (error: unknown) => error,
  )
  expect(isAnswer(failed)).toBe(true)
  expect(failed).toMatchObject({ errno: 1146, code: 'ER_NO_SUCH_TABLE' })
  expect((await send(connection, 'SELECT 3'))[0]).toEqual([['3']])
})

test('questions wait for one another, among those of the client library', async () => {
  const [first, [own], last] = await Promise.all([
    send(connection, 'SELECT SLEEP(0.05), 1'),
    connection.query({ sql: 'SELECT ?', rowsAsArray: true }, [2]),
    send(connection, 'SELECT 3'),
  ])
  expect([first[0]?.[0]?.[1], (own as unknown as number[][])[0]?.[0], last[0]?.[0]?.[0]]).toEqual(['1', 2, '3'])
})

test('who waits for an answer learns that the connection is lost', async () => {
  const other = await createConnection({ uri: server.url })
  other.on('error', () => undefined)
  const waiting = send(other, 'SELECT SLEEP(60)').then(
    () => 'an answer',
    (error: unknown) => error,
  )
  await send(connection, `KILL ${other.threadId}`)
  expect(await waiting).toBeInstanceOf(Error)
  expect(await send(other, 'SELECT 1').catch((error: unknown) => error)).toBeInstanceOf(Error)
})

test('where the library has no room for such questions, its own query gives the same', async () => {
  const core = coreOf(connection)
  expect(canAsk(core)).toBe(true)
  expect(canAsk({})).toBe(false)
  const plain = (sql: string): Promise<unknown> =>
    new Promise((resolve) => {
      query(core, sql, (error, results) => resolve(error ?? results))
    })
  for (const sql of [
    "SELECT 1, NULL, x'c3a9', 12345678901234567890",
    'SELECT 1 FROM DUAL WHERE FALSE',
    'DO 0',
    'CREATE TEMPORARY TABLE some (n INT);INSERT INTO some VALUES (1),(2);SELECT n FROM some;DROP TABLE some',
    'SELECT 1;SELECT nothing FROM nowhere',
  ]) {
    const own = await send(connection, sql).catch((error: unknown) => error)
    const theirs = await plain(sql)
    if (own instanceof Error) expect(theirs).toMatchObject({ errno: (own as Error & { errno: number }).errno })
    else expect(theirs).toEqual(own)
  }
})
