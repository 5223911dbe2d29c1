import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { StoreBench } from './contender.js'

const folder = new URL('./stores/', import.meta.url)

/** The stores that have a benchmark: a file each. */
export function storeNames(): string[] {
  return readdirSync(fileURLToPath(folder)).map((file) => file.replace(/\.js$/, ''))
}

/** Names that people look for. */
const ALIASES: Readonly<Record<string, string>> = { quorum: 'redlock' }

export async function loadStore(asked: string): Promise<StoreBench> {
  const name = ALIASES[asked] ?? asked
  const url = new URL(`${name}.js`, folder)
  if (!existsSync(fileURLToPath(url)))
    throw new Error(`There is no benchmark of '${name}'. Known: ${storeNames().join(', ')}`)
  return ((await import(url.href)) as { default: StoreBench }).default
}
