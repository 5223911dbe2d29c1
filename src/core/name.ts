import { ConfigError } from './errors.js'

/** The most bytes of UTF-8 that every store can keep as one identity. */
export const LONGEST_NAME_BYTES = 512

/** Checks that a name is the same identity on every store: any text of 1 to 512 bytes without NUL. */
export function checkName(name: unknown): string {
  if (typeof name !== 'string') throw new ConfigError(`A lock's name is a string, not ${typeof name}.`)
  if (name.length === 0) throw new ConfigError("A lock's name is empty. Name what it protects, such as 'invoice:42'.")
  if (name.includes('\0')) {
    throw new ConfigError(`The name ${JSON.stringify(name)} has a NUL character, which not every store can keep.`)
  }
  // At most three bytes a code unit: short names need no count.
  if (name.length > LONGEST_NAME_BYTES / 3 && Buffer.byteLength(name) > LONGEST_NAME_BYTES) {
    throw new ConfigError(
      `The name '${name.slice(0, 40)}…' has ${Buffer.byteLength(name)} bytes; at most ${LONGEST_NAME_BYTES} are kept alike by every store. Hash it first.`,
    )
  }
  if (!name.isWellFormed()) {
    throw new ConfigError(`The name ${JSON.stringify(name)} has half of a surrogate pair, which is not text.`)
  }
  return name
}
