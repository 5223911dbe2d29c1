import { createPool, type Pool, type ResultSetHeader } from 'mysql2/promise'

/** A pool of connections, with the recipe's table made where it is missing. */
export async function openTable(url: string, table: string): Promise<Pool> {
  const pool = createPool({ uri: url, connectionLimit: 2, connectTimeout: 2_000 })
  await pool.query(table)
  return pool
}

/**
 * Inserts a row, or says false because the unique index has one. When many insert while the row is being deleted,
 * InnoDB ends some of them as victims of a deadlock: to the posts, any exception means that somebody else holds it.
 */
export async function inserted(pool: Pool, insert: string, values: readonly (string | number)[]): Promise<boolean> {
  try {
    await pool.query(insert, [...values])
    return true
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === 'ER_DUP_ENTRY' || code === 'ER_LOCK_DEADLOCK') return false
    throw error
  }
}

/** Deletes rows; whether there were any. */
export async function deleted(pool: Pool, sql: string, values: readonly (string | number)[]): Promise<boolean> {
  const [{ affectedRows }] = await pool.query<ResultSetHeader>(sql, [...values])
  return affectedRows > 0
}
