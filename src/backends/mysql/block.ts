/**
 * Statements as one compound statement of MariaDB. Beside one another in a packet each is answered by itself, and each
 * answer wakes this process up; a block gives only the rows that it reads, and they come together.
 */
export function block(statements: readonly string[]): string {
  return `BEGIN NOT ATOMIC ${statements.join(';')};END`
}

/** Rows that are not there, where a place among the results must be kept. */
export const NO_ROWS = 'SELECT 1 FROM DUAL WHERE FALSE'
