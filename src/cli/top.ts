import { connect } from '../connect.js'
import type { Holdfast } from '../core/holdfast.js'
import { COMMON, duration, takeApart, UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { allLines, listing, onePrefix } from './ls.js'
import { jsonLine, write } from './output.js'
import { palette, visible } from './text.js'
import { lineJson, waiters } from './tickets.js'

const SHORTEST_LOOK_MS = 100

interface TopOptions {
  readonly prefix: string
  readonly everyMs: number
  readonly times: number
  readonly json: boolean
}

/** `holdfast top`: watches what is held and waited for. */
export async function top(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart('top', args, {
    ...COMMON,
    every: { type: 'string' },
    times: { type: 'string' },
  })
  if (values.help) {
    await write(HELP['top']!)
    return EXIT.ok
  }
  const prefix = onePrefix('top', positionals)
  const everyMs = duration('top', 'every', values.every ?? '1s')
  if (everyMs < SHORTEST_LOOK_MS) throw new UsageError(`--every: at least ${SHORTEST_LOOK_MS} ms.`, 'top')
  const times = values.times === undefined ? Number.POSITIVE_INFINITY : Number(values.times)
  if (values.times !== undefined && !/^[1-9]\d{0,8}$/.test(values.times)) {
    throw new UsageError(`--times: ${JSON.stringify(values.times)} is not a number of 1 or more.`, 'top')
  }
  const json = values.json ?? false
  const locks = await connect(values.store)
  const screen = process.stdout.isTTY && !json ? new Screen() : undefined
  const stop = new AbortController()
  const quit = (): void => stop.abort()
  screen?.onKey(quit)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, quit)
  try {
    await look(locks, { prefix, everyMs, times, json }, screen, stop.signal)
    return EXIT.ok
  } finally {
    screen?.close()
    await locks.close()
  }
}

async function look(
  locks: Holdfast,
  options: TopOptions,
  screen: Screen | undefined,
  stop: AbortSignal,
): Promise<void> {
  for (let i = 0; i < options.times && !stop.aborted; i += 1) {
    if (i > 0) await pause(options.everyMs, stop)
    if (stop.aborted) return
    const lines = await allLines(locks, options.prefix)
    if (options.json) {
      await write(jsonLine({ at: new Date().toISOString(), lines: lines.map(lineJson) }))
      continue
    }
    const paint = palette(process.stdout)
    const waiting = lines.reduce((sum, line) => sum + waiters(line).length, 0)
    const about = options.prefix === '' ? '' : ` under '${visible(options.prefix)}'`
    const time = new Date().toTimeString().slice(0, 8)
    const title = `${paint.bold('holdfast')} on ${locks.store}  ${lines.length} in use${about}, ${waiting} waiting  ${paint.dim(time)}`
    const body = lines.length === 0 ? 'Nothing is held or waited for.' : listing(lines, process.stdout, paint)
    if (screen === undefined) await write(`${i > 0 ? '\n' : ''}${title}\n${body}\n`)
    else screen.draw(`${title}\n\n${body}\n\n${paint.dim('q quits')}`)
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    stop.addEventListener('abort', end)
  })
}

/** The terminal's second screen: what was on the first is there again afterwards. */
class Screen {
  constructor() {
    process.stdout.write('\u001B[?1049h\u001B[?25l')
  }

  /** Calls back at q, Escape and Ctrl-C. */
  onKey(quit: () => void): void {
    if (!process.stdin.isTTY) return
    process.stdin.setRawMode(true)
    process.stdin.on('data', (key: Buffer) => {
      if (['q', 'Q', '\u0003', '\u001B'].includes(key.toString())) quit()
    })
    process.stdin.unref()
  }

  draw(text: string): void {
    const rows = text.split('\n').slice(0, (process.stdout.rows ?? 24) - 1)
    // Each line is cleared to its end, then the rest of the screen: no flicker as with a cleared screen.
    process.stdout.write(`\u001B[H${rows.map((row) => `${row}\u001B[K`).join('\n')}\u001B[J`)
  }

  close(): void {
    if (process.stdin.isTTY) process.stdin.setRawMode(false)
    process.stdout.write('\u001B[?25h\u001B[?1049l')
  }
}
