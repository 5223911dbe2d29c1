/** Numbers in [0, 1) that follow from the seed (mulberry32): the same seed plays the same situation. */
export function generator(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A seed for one part of a run, from the run's own (FNV-1a). */
export function seedFor(seed: number, ...parts: readonly string[]): number {
  let hash = 0x811c9dc5 ^ seed
  for (const char of parts.join('\0')) hash = Math.imul(hash ^ char.codePointAt(0)!, 0x01000193)
  return hash >>> 0
}
