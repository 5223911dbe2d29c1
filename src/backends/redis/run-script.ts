import type { Script } from './scripts.js'
import type { Wire } from './wire.js'

/** Calls a script by its hash, and by its text where the server does not know it (any more). `rest`: keys and all. */
export async function runScript(wire: Wire, script: Script, rest: readonly string[], key: string): Promise<unknown> {
  try {
    return await wire.send(['evalsha', script.sha, ...rest], key)
  } catch (error) {
    if (!isNoScript(error)) throw error
    return await wire.send(['eval', script.text, ...rest], key)
  }
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOSCRIPT')
}
