/** A result as it comes: every value its bytes, so that no type conversion of the client's settings can bend it. */
export type Row = readonly (Buffer | null)[]
export type Rows = readonly Row[]

export function number(value: Buffer | null | undefined): number {
  return value === null || value === undefined ? 0 : Number(value.toString('latin1'))
}

export function bigint(value: Buffer | null | undefined): bigint {
  return value === null || value === undefined ? 0n : BigInt(value.toString('latin1'))
}

export function string(value: Buffer | null | undefined): string {
  return value === null || value === undefined ? '' : value.toString('utf8')
}

export function flag(value: Buffer | null | undefined): boolean {
  return number(value) !== 0
}

/** How many rows a statement that gives none has changed. */
export function affected(result: Rows | undefined): number {
  return (result as unknown as { affectedRows?: number } | undefined)?.affectedRows ?? 0
}
