/** Looks again and again until the answer is true; fails with that sentence when it takes too long. */
export async function eventually(
  what: string,
  look: () => boolean | Promise<boolean>,
  withinMs: number = 20_000,
): Promise<void> {
  const until = performance.now() + withinMs
  while (!(await look())) {
    if (performance.now() > until) throw new Error(`not within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** The promise's result, or an error with that sentence when it takes too long. */
export async function within<T>(what: string, promise: Promise<T>, withinMs: number = 20_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${withinMs} ms: ${what}`)), withinMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
