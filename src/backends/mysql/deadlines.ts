/** A call under way: when it is given up, and how. */
export interface Expected {
  readonly until: number
  late(): void
}

const LOOK_MS = 250

const expected = new Set<Expected>()
let timer: NodeJS.Timeout | undefined

/** Has `late` called unless `settle` is first. One timer for all calls: one for each costs more than the rest of our work for it. */
export function expect(call: Expected): void {
  expected.add(call)
  timer ??= setInterval(look, LOOK_MS).unref()
}

export function settle(call: Expected): void {
  expected.delete(call)
}

/** The promise's outcome, or the error when it has none in time. */
export function within<T>(promise: Promise<T>, ms: number, error: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const call = { until: performance.now() + ms, late: () => reject(error()) }
    expect(call)
    promise.then(
      (value) => {
        settle(call)
        resolve(value)
      },
      (failure: unknown) => {
        settle(call)
        reject(failure)
      },
    )
  })
}

function look(): void {
  const now = performance.now()
  for (const call of expected) {
    if (call.until > now) continue
    expected.delete(call)
    call.late()
  }
  if (expected.size > 0) return
  clearInterval(timer)
  timer = undefined
}
