/** What happens to the command when something happens to `holdfast run` itself. Real processes, real signals. */
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'libsql'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  beating,
  beats,
  Bench,
  bootMs,
  childrenOf,
  eventually,
  quoted,
  type Running,
  ranBeside,
  runs,
} from './holdfast.js'

const TTL_MS = 3_000
const GRACE_MS = 1_000
const TIMES = ['--ttl', '3s', '--grace', '1s']

let bench: Bench
beforeAll(() => {
  bench = new Bench()
})
afterAll(() => bench.close())

/** Starts a holder whose command beats, and waits until it does. */
async function holder(
  name: string,
  stubborn = false,
): Promise<{ cli: Running; guardian: number; command: number; file: string }> {
  const file = bench.file(`${name}.beats`)
  const cli = bench.start(['run', name, ...TIMES, '--', ...beating(file, 'first', stubborn)])
  await eventually(() => expect(existsSync(file)).toBe(true))
  const [guardian] = childrenOf(cli.pid)
  const [command] = childrenOf(guardian!)
  return { cli, guardian: guardian!, command: command!, file }
}

/** Starts the next in line, whose command beats for a moment, and waits until it stands there. */
async function next(name: string, file: string): Promise<Running> {
  const script = `${quoted(beating(file, 'second'))} & sleep 1; kill $!`
  const cli = bench.start(['run', name, ...TIMES, '--', 'sh', '-c', script])
  await bench.untilHeld(name, 1)
  return cli
}

describe('the guardian', () => {
  it.each([
    ['that ends on SIGTERM', false],
    ['that ignores SIGTERM', true],
  ])('stops a command %s when the CLI is killed, before the next one starts', async (_what, stubborn) => {
    const name = `killed-${stubborn}`
    const first = await holder(name, stubborn)
    const second = await next(name, first.file)
    const killedAt = bootMs()
    first.cli.kill('SIGKILL')
    expect((await second.ended).code).toBe(0)
    expect(ranBeside(first.file, 'first', 'second')).toBe(false)
    const all = beats(first.file)
    expect(all.some((beat) => beat.label === 'first' && beat.what === 'term')).toBe(true)
    expect(all.find((beat) => beat.label === 'second')!.at - killedAt).toBeLessThan(TTL_MS + GRACE_MS + 1_000)
    expect(runs(first.command)).toBe(false)
    await eventually(() => expect(runs(first.guardian)).toBe(false))
  })

  it('stops the command in time when the CLI is stopped for three ttls, and the CLI says why', async () => {
    const first = await holder('stopped', true)
    const second = await next('stopped', first.file)
    const stoppedAt = bootMs()
    first.cli.kill('SIGSTOP')
    expect((await second.ended).code).toBe(0)
    await sleep(Math.max(0, stoppedAt + 3 * TTL_MS - bootMs()))
    first.cli.kill('SIGCONT')
    const ended = await first.cli.ended
    expect(ended.code).toBe(76)
    expect(ended.stderr).toMatch(
      /^holdfast: lost 'stopped' \(fence \d+\): holdfast itself stood still for \d+(\.\d)?s .*\n$/,
    )
    expect(ended.stderr).toContain('SIGTERM and then SIGKILL before anyone else could get the lock')
    expect(ranBeside(first.file, 'first', 'second')).toBe(false)
    // Its late release took nothing from those who came after it.
    expect((await bench.run(['run', 'stopped', '--no-wait', '--', 'true'])).code).toBe(0)
  })

  it('kills everything in the process group, also what the command started', async () => {
    const file = bench.file('family.beats')
    const script = `${quoted(beating(file, 'first', true))} & wait`
    const cli = bench.start(['run', 'family', ...TIMES, '--', 'sh', '-c', script])
    await eventually(() => expect(existsSync(file)).toBe(true))
    const second = await next('family', file)
    cli.kill('SIGKILL')
    expect((await second.ended).code).toBe(0)
    expect(ranBeside(file, 'first', 'second')).toBe(false)
  })

  it('is replaced by the CLI when it is killed itself: the command is stopped, then the lock given back', async () => {
    const first = await holder('unguarded', true)
    const second = await next('unguarded', first.file)
    process.kill(first.guardian, 'SIGKILL')
    const ended = await first.cli.ended
    expect(ended.code).toBe(70)
    expect(ended.stderr).toMatch(
      /^holdfast: the guardian process ended unexpectedly.*The command was stopped, and the lock given back\.\n$/,
    )
    expect((await second.ended).code).toBe(0)
    expect(ranBeside(first.file, 'first', 'second')).toBe(false)
  })

  it('leaves the ticket to the command when CLI and guardian are killed together', async () => {
    const first = await holder('orphan', true)
    const second = await next('orphan', first.file)
    process.kill(first.guardian, 'SIGKILL')
    first.cli.kill('SIGKILL')
    // Not its output's end: the command has it still.
    await once(first.cli.process, 'exit')
    await sleep(500)
    expect(runs(first.command)).toBe(true)
    expect(beats(first.file).some((beat) => beat.label === 'second')).toBe(false)
    process.kill(first.command, 'SIGKILL')
    expect((await second.ended).code).toBe(0)
    expect(ranBeside(first.file, 'first', 'second')).toBe(false)
  })

  it('ends with a CLI that is killed while it waits', async () => {
    const first = await holder('waiting')
    const second = await next('waiting', first.file)
    const [guardian] = childrenOf(second.pid)
    second.kill('SIGKILL')
    await eventually(() => expect(runs(guardian!)).toBe(false))
    await bench.untilHeld('waiting', 0)
    first.cli.kill('SIGTERM')
    expect((await first.cli.ended).code).toBe(0)
  })

  it('gives up the wait when it is killed: without a guardian nothing is run', async () => {
    const first = await holder('no-guardian')
    const second = await next('no-guardian', first.file)
    process.kill(childrenOf(second.pid)[0]!, 'SIGKILL')
    expect(await second.ended).toMatchObject({
      code: 70,
      stderr: expect.stringMatching(/^holdfast: the guardian [^\n]+\n$/),
    })
    await bench.untilHeld('no-guardian', 0)
    first.cli.kill('SIGTERM')
    expect((await first.cli.ended).code).toBe(0)
  })

  it('stops the command when the store does not answer for too long, and the CLI says so', async () => {
    const first = await holder('no-answer', true)
    const database = new Database(bench.file('locks.db'))
    database.exec('BEGIN IMMEDIATE')
    try {
      const ended = await first.cli.ended
      expect(ended.code).toBe(76)
      expect(ended.stderr).toMatch(
        /^holdfast: lost 'no-answer' \(fence \d+\): .+ SIGTERM and then SIGKILL before anyone else could get the lock\.\n$/,
      )
      expect(runs(first.command)).toBe(false)
    } finally {
      database.exec('ROLLBACK')
      database.close()
    }
  })

  it('lets a command that is done end as it ended, also when the lock cannot be given back', async () => {
    const go = bench.file('go')
    const script = `while ! [ -e '${go}' ]; do sleep 0.05; done; exit 5`
    const cli = bench.start(['run', 'no-farewell', ...TIMES, '--', 'sh', '-c', script])
    await bench.untilHeld('no-farewell')
    const database = new Database(bench.file('locks.db'))
    database.exec('BEGIN IMMEDIATE')
    try {
      writeFileSync(go, '')
      const ended = await cli.ended
      expect(ended.code).toBe(5)
      expect(ended.stderr).toMatch(
        /^holdfast: the command ended, but the lock of 'no-farewell' could not be given back: it lapses within 4\.0s\. [^\n]+\n$/,
      )
    } finally {
      database.exec('ROLLBACK')
      database.close()
    }
  })

  it('lets a command end as it ended while the CLI was stopped, though the lock lapsed after it', async () => {
    const go = bench.file('go-lapsed')
    const script = `while ! [ -e '${go}' ]; do sleep 0.05; done; exit 6`
    const cli = bench.start(['run', 'lapsed', ...TIMES, '--', 'sh', '-c', script])
    await bench.untilHeld('lapsed')
    const second = bench.start(['run', 'lapsed', ...TIMES, '--', 'true'])
    await bench.untilHeld('lapsed', 1)
    cli.kill('SIGSTOP')
    writeFileSync(go, '')
    expect((await second.ended).code).toBe(0)
    cli.kill('SIGCONT')
    const ended = await cli.ended
    expect(ended.code).toBe(6)
    expect(ended.stderr).toMatch(
      /^holdfast: the command had ended when 'lapsed' lapsed: holdfast itself stood still for [^\n]+\n$/,
    )
  })

  it('is done without when it is stopped itself: the CLI kills the command', async () => {
    const first = await holder('guardian-stopped', true)
    process.kill(first.guardian, 'SIGSTOP')
    expect((await bench.run(['evict', 'guardian-stopped'])).code).toBe(0)
    expect((await first.cli.ended).code).toBe(70)
    expect(runs(first.command)).toBe(false)
    expect(runs(first.guardian)).toBe(false)
  })

  it('kills the command at once when its holder was evicted', async () => {
    const first = await holder('evicted', true)
    expect((await bench.run(['evict', 'evicted'])).code).toBe(0)
    const ended = await first.cli.ended
    expect(ended.code).toBe(76)
    expect(ended.stderr).toMatch(/^holdfast: lost 'evicted' \(fence \d+\): .+\. The command was killed at once\.\n$/)
    expect(runs(first.command)).toBe(false)
  })

  it('goes on guarding when its own process group is asked to end', async () => {
    const first = await holder('asked')
    process.kill(first.guardian, 'SIGTERM')
    process.kill(first.guardian, 'SIGINT')
    process.kill(first.guardian, 'SIGHUP')
    await sleep(300)
    expect(runs(first.guardian) && runs(first.command)).toBe(true)
    first.cli.kill('SIGKILL')
    await eventually(() => expect(runs(first.command)).toBe(false))
  })
})
