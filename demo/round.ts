import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Bump, FromWorker } from './protocol.js'

/** A time in which a worker was between reading the counter and having written it; from the round's start, in ms. */
export interface Section {
  readonly worker: number
  readonly from: number
  readonly to: number
  readonly fence?: string
  /** Another worker was in there at the same time. */
  overlaps: boolean
}

/** What came of a round. */
export interface Round {
  readonly workers: number
  readonly expected: number
  readonly counted: number
  readonly ms: number
  readonly sections: readonly Section[]
}

export interface RoundOptions {
  readonly mode: 'bare' | 'locked'
  readonly workers: number
  readonly times: number
  readonly dir: string
  readonly env: NodeJS.ProcessEnv
  /** Called at every bump, with how many each worker has done. */
  readonly onBump: (done: readonly number[]) => void
}

/** Lets so many real processes bump one counter in a file, and says what came of it. */
export async function runRound({ mode, workers, times, dir, env, onBump }: RoundOptions): Promise<Round> {
  const file = join(dir, `counter-${mode}`)
  writeFileSync(file, '0'.padEnd(12))
  const children = Array.from({ length: workers }, () =>
    fork(fileURLToPath(new URL('./worker.js', import.meta.url)), [mode, file, String(times)], { env }),
  )
  const bumps: (Bump & { worker: number })[] = []
  const done = children.map(() => 0)
  const ready = children.map(isReady)
  const ended = children.map(hasEnded)
  for (const [worker, child] of children.entries()) {
    child.on('message', (message: FromWorker) => {
      if (message.type !== 'bump') return
      bumps.push({ ...message, worker })
      done[worker]! += 1
      onBump(done)
    })
  }
  try {
    // All stand at the start before any goes: a head start would be a kind of lock.
    await Promise.race([Promise.all(ready), Promise.all(ended)])
    for (const child of children) child.send('go')
    await Promise.all(ended)
  } finally {
    for (const child of children) child.kill()
  }
  const start = Math.min(...bumps.map((bump) => bump.from))
  const sections = bumps
    .map(({ worker, from, to, fence }) => ({
      worker,
      from: from - start,
      to: to - start,
      overlaps: false,
      ...(fence === undefined ? undefined : { fence }),
    }))
    .sort((a, b) => a.from - b.from)
  markOverlaps(sections)
  const ms = Math.max(...sections.map((section) => section.to))
  return { workers, expected: workers * times, counted: Number(readFileSync(file, 'utf8')), ms, sections }
}

/** Those `count` sections in a row that took the least time, counted from their own start: without the stutter of a start. */
export function densest(
  sections: readonly Section[],
  count: number,
): { readonly from: number; readonly sections: Section[] } {
  let best = 0
  const lengthOf = (at: number): number =>
    (sections[at + count - 1]?.to ?? Number.POSITIVE_INFINITY) - sections[at]!.from
  for (let at = 1; at + count <= sections.length; at += 1) if (lengthOf(at) < lengthOf(best)) best = at
  const from = sections[best]?.from ?? 0
  const shown = sections.slice(best, best + count)
  return { from, sections: shown.map((one) => ({ ...one, from: one.from - from, to: one.to - from })) }
}

async function isReady(child: ChildProcess): Promise<void> {
  await once(child, 'message')
}

async function hasEnded(child: ChildProcess): Promise<void> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) throw new Error(`a worker ended with ${signal ?? `exit status ${code}`}`)
}

/** Marks the sections that share a moment with another's. They are sorted by their start. */
function markOverlaps(sections: Section[]): void {
  let last: Section | undefined
  for (const section of sections) {
    if (last !== undefined && section.from < last.to) {
      section.overlaps = true
      last.overlaps = true
    }
    if (last === undefined || section.to > last.to) last = section
  }
}
