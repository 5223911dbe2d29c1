import { Redis } from 'ioredis'

/** ioredis as people open it: by its defaults. Errors of the connection come out of the commands. */
export function openRedis(url: string): Redis {
  const client = new Redis(url)
  client.on('error', () => {})
  return client
}

/** The value belongs to this acquire alone, where a recipe gives it one. */
export function randomValue(): string {
  return Math.random().toString(36).slice(2)
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms))
}

/** Tries again and again with a fixed sleep, as most posts wait. */
export async function spin<T>(
  attempt: () => Promise<T | undefined>,
  everyMs: number,
  waitMs: number,
): Promise<T | undefined> {
  const until = performance.now() + waitMs
  for (;;) {
    const result = await attempt()
    if (result !== undefined || performance.now() > until) return result
    await sleep(everyMs)
  }
}
