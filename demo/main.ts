/**
 * The demo: eight real processes bump a counter in a file, first without a lock, then under Holdfast on the embedded
 * default. It ends with a picture of who held the lock when, and fails when an update was lost under the lock.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CLASH_COLOUR } from './palette.js'
import { drawPicture } from './picture.js'
import { densest, type Round, runRound } from './round.js'
import { Terminal } from './terminal.js'

const WORKERS = 8
const TIMES = 25
/** So many holds are shown one by one. */
const SHOWN_HOLDS = 28

const terminal = new Terminal()
const dir = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
// The embedded default, but in a state directory of its own: the demo leaves nothing in yours.
const { HOLDFAST_URL: _theirs, ...environment } = process.env
const env = { ...environment, XDG_STATE_HOME: dir, HOME: dir, LOCALAPPDATA: dir }

async function round(mode: 'bare' | 'locked'): Promise<Round> {
  let done: readonly number[] = Array.from({ length: WORKERS }, () => 0)
  terminal.progress(done, TIMES)
  const result = await runRound({
    mode,
    workers: WORKERS,
    times: TIMES,
    dir,
    env,
    onBump: (now) => {
      done = now
      terminal.progress(now, TIMES)
    },
  })
  terminal.progress(done, TIMES, true)
  return result
}

try {
  terminal.line(terminal.bold(`${WORKERS} processes bump a counter in a file, ${TIMES} times each.`))
  terminal.line()
  terminal.line(terminal.bold('1. Without a lock'))
  const bare = await round('bare')
  verdict(bare)
  terminal.line()
  terminal.line(terminal.bold('2. Under Holdfast'))
  terminal.line(
    terminal.dim("   locks.lock('demo:counter').use(bump), on the embedded default: a SQLite file on this machine"),
  )
  const locked = await round('locked')
  verdict(locked)
  terminal.line()

  const close = densest(locked.sections, SHOWN_HOLDS)
  const span = Math.max(...close.sections.map((section) => section.to))
  terminal.line(terminal.bold('Who was at the counter when'))
  terminal.line(
    `  without a lock: from the start (${terminal.paint(CLASH_COLOUR, '▒')} = with another at the same time)`,
  )
  terminal.timeline(bare, span)
  terminal.line(`  under Holdfast: ${close.sections.length} holds in a row, from ${Math.round(close.from)} ms on`)
  terminal.timeline({ ...locked, sections: close.sections }, span)

  mkdirSync('demo-out', { recursive: true })
  const file = join('demo-out', 'timeline.svg')
  writeFileSync(file, drawPicture(bare, locked, SHOWN_HOLDS))
  terminal.line()
  terminal.line(`The whole picture: ${file}`)
  const clashes = locked.sections.filter((section) => section.overlaps).length
  if (locked.counted !== locked.expected || clashes > 0) {
    terminal.line(
      `FAILED: ${locked.expected - locked.counted} updates lost and ${clashes} holds overlapped under the lock.`,
    )
    process.exitCode = 1
  } else {
    terminal.line(terminal.bold(`Lost without a lock: ${bare.expected - bare.counted}. Lost under Holdfast: 0.`))
  }
} catch (error) {
  terminal.line(`FAILED: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
} finally {
  rmSync(dir, { recursive: true, force: true })
}

function verdict({ expected, counted, ms }: Round): void {
  const lost = expected - counted
  const text = `   ${expected} bumps, the counter says ${counted}: ${lost} updates lost, in ${Math.round(ms)} ms`
  terminal.line(lost > 0 ? terminal.paint(CLASH_COLOUR, text) : terminal.paint('#009E73', text))
}
