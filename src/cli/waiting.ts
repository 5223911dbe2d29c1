import type { Holdfast } from '../core/holdfast.js'
import { inBackground } from './group.js'
import { kindOf, type RunOptions } from './run-options.js'
import { cut, palette, span, visible } from './text.js'
import { waiters, whoHolds } from './tickets.js'

/** A wait that is over sooner is not worth a word. */
const FIRST_LOOK_MS = 300
const LOOK_EVERY_MS = 1_000

/**
 * Shows, on a terminal, who is waited for and how many are ahead. The answer takes it away again.
 * In a pipe or a crontab it shows nothing.
 */
export function showWaiting(locks: Holdfast, options: RunOptions): () => void {
  if (!process.stderr.isTTY || options.json) return () => {}
  const paint = palette(process.stderr)
  const startedAt = performance.now()
  let shown = false
  let over = false
  let timer: NodeJS.Timeout

  const look = async (): Promise<void> => {
    // In the background of a terminal it would write into what is typed.
    if (!inBackground()) await draw()
    if (over) return
    timer = setTimeout(() => void look(), LOOK_EVERY_MS)
    timer.unref()
  }

  const draw = async (): Promise<void> => {
    const text = await describe(locks, options)
    if (over) return
    const line = `waiting ${span(performance.now() - startedAt)} for '${visible(options.name)}'${text}`
    process.stderr.write(`\r\u001B[K${paint.dim(cut(line, (process.stderr.columns ?? 80) - 1))}`)
    shown = true
  }

  timer = setTimeout(() => void look(), FIRST_LOOK_MS)
  timer.unref()
  return () => {
    over = true
    clearTimeout(timer)
    if (shown) process.stderr.write('\r\u001B[K')
  }
}

async function describe(locks: Holdfast, options: RunOptions): Promise<string> {
  try {
    const lines = await locks.view(options.name)
    const who = whoHolds(lines, kindOf(options.mode))
    const line = lines.find((one) => one.kind === kindOf(options.mode))
    const place = line === undefined ? -1 : waiters(line).findIndex((ticket) => ticket.pid === process.pid)
    const ahead = place === -1 ? '' : place === 0 ? '; next in line' : `; ${place} ahead in line`
    return `${who === undefined ? '' : `: ${who}`}${ahead}`
  } catch {
    // The wait itself goes on trying, and says what is wrong when it gives up.
    return ': the store does not answer'
  }
}
