/** PostgreSQL's text form of arrays. Values are data in a bound parameter: this is no SQL text. */

/** An array of numbers, bigints or booleans. */
export function plainArray(values: readonly (number | bigint | boolean | string | null)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`
}

/** An array of texts. */
export function textArray(values: readonly (string | null)[]): string {
  let text = '{'
  for (const value of values) {
    if (text.length > 1) text += ','
    if (value === null) text += 'NULL'
    else text += `"${/["\\]/.test(value) ? value.replaceAll(/["\\]/g, '\\$&') : value}"`
  }
  return `${text}}`
}

/** The array, or NULL when no item has a value: most batches have none, and the server is spared the reading. */
export function sparse<Item>(
  items: readonly Item[],
  value: (item: Item) => string | null,
  encode: (values: readonly (string | null)[]) => string,
): string | null {
  const values = items.map(value)
  return values.every((one) => one === null) ? null : encode(values)
}
