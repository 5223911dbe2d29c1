/** A result as it comes: every value its text, so that no type conversion of the client's settings can bend it. */
export type Value = string | null
export type Row = readonly Value[]
/** `affectedRows`: how many a statement that gives none has changed. */
export type Rows = readonly Row[] & { readonly affectedRows?: number }

export function number(value: Value | undefined): number {
  return value === null || value === undefined ? 0 : Number(value)
}

export function bigint(value: Value | undefined): bigint {
  return value === null || value === undefined ? 0n : BigInt(value)
}

export function string(value: Value | undefined): string {
  return value ?? ''
}

export function flag(value: Value | undefined): boolean {
  return number(value) !== 0
}

/** How many rows a statement that gives none has changed. */
export function affected(result: Rows | undefined): number {
  return result?.affectedRows ?? 0
}
