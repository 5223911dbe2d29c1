import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Bench, MAIN, type Running } from './holdfast.js'

const ESC = '\u001B'

let bench: Bench
let holder: Running
let waiter: Running
beforeAll(async () => {
  bench = new Bench()
  holder = bench.start(['run', 'job:1', '--owner', `evil${ESC}[2J`, '--note', 'two\nlines', '--', 'sleep', '120'])
  await bench.untilHeld('job:1')
  waiter = bench.start(['run', 'job:1', '--owner', 'second', '--', 'sleep', '120'])
  await bench.untilHeld('job:1', 1)
})
afterAll(() => bench.close())

/** Runs a shell script in which `holdfast` is the built command. */
function shell(script: string): { status: number | null; stdout: string; stderr: string } {
  const setup = `holdfast() { '${process.execPath}' '${MAIN}' "$@"; };`
  return spawnSync('bash', ['-c', `${setup} ${script}`], {
    encoding: 'utf8',
    env: { ...process.env, HOLDFAST_URL: bench.url },
  })
}

describe('ls', () => {
  it('lists what is held, without colours in a pipe and with nothing that could move the cursor', async () => {
    const { code, stdout, stderr } = await bench.run(['ls'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const [head, row, ...more] = stdout.trimEnd().split('\n')
    expect(more).toEqual([])
    expect(head).toMatch(/^NAME +KIND +HELD +WAITING +IN LINE +LEFT +FENCE +HOLDER +NOTE$/)
    expect(row).toMatch(/^job:1 +mutex +1 +1 /)
    expect(stdout).toContain(String.raw`evil\x1b[2J`)
    expect(stdout).toContain(String.raw`two\x0alines`)
    expect(stdout).not.toContain(ESC)
  })

  it('takes a prefix, and is silent when there is nothing', async () => {
    expect((await bench.run(['ls', 'job:'])).stdout).toContain('job:1')
    expect(await bench.run(['ls', 'other:'])).toEqual({ code: 0, signal: null, stdout: '', stderr: '' })
  })

  it('gives one JSON document a line, tokens as decimal text', async () => {
    const { stdout } = await bench.run(['ls', '--json'])
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
    expect(lines).toEqual([
      {
        kind: 'mutex',
        name: 'job:1',
        held: 1,
        waiting: 1,
        tickets: [
          expect.objectContaining({
            state: 'held',
            fence: expect.stringMatching(/^\d+$/),
            owner: `evil${ESC}[2J`,
            note: 'two\nlines',
          }),
          expect.objectContaining({ state: 'waiting', owner: 'second' }),
        ],
      },
    ])
  })

  it('ends quietly when its reader has gone', () => {
    const { stdout, stderr } = shell(
      'for i in 1 2 3; do holdfast ls --json; done | true; holdfast --help | head -1; holdfast top --every 100ms | head -1',
    )
    expect(stderr).toBe('')
    expect(stdout.split('\n')[0]).toContain('holdfast')
  })

  it('refuses what it does not understand', async () => {
    for (const args of [
      ['ls', 'a', 'b'],
      ['ls', '--bogus'],
      ['top', '--every', '1'],
      ['top', '--every', '10ms'],
      ['top', '--times', '0'],
    ]) {
      expect(await bench.run(args)).toMatchObject({
        code: 64,
        stdout: '',
        stderr: expect.stringMatching(/^holdfast: [^\n]+\n$/),
      })
    }
  })
})

describe('show', () => {
  it('shows who holds and who waits', async () => {
    const { code, stdout } = await bench.run(['show', 'job:1'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^job:1 {2}mutex, 1 held, 1 waiting\n/)
    expect(stdout).toMatch(/\n +held +\d+ /)
    expect(stdout).toMatch(/\n +waiting +\d+ .*second/)
    expect(stdout).not.toContain(ESC)
  })

  it('says of a free lock that it is free', async () => {
    expect(await bench.run(['show', 'nobody'])).toMatchObject({
      code: 0,
      stdout: "'nobody' is free: nobody holds it or waits for it.\n",
    })
    expect(JSON.parse((await bench.run(['show', 'nobody', '--json'])).stdout)).toEqual({ name: 'nobody', lines: [] })
  })

  it('refuses what it does not understand', async () => {
    for (const args of [
      ['show'],
      ['show', 'a', 'b'],
      ['show', ''],
      ['show', '--ticket', 'x', 'a'],
      ['evict'],
      ['evict', 'a', '--all', '--holder'],
    ]) {
      expect(await bench.run(args)).toMatchObject({
        code: 64,
        stdout: '',
        stderr: expect.stringMatching(/^holdfast: [^\n]+\n$/),
      })
    }
  })
})

describe('top', () => {
  it('prints plain tables in a pipe', async () => {
    const { code, stdout } = await bench.run(['top', '--times', '2', '--every', '100ms'])
    expect(code).toBe(0)
    expect(stdout.match(/^holdfast on sqlite {2}1 in use, 1 waiting/gm)).toHaveLength(2)
    expect(stdout).not.toContain(ESC)
  })

  it('prints one JSON document a look', async () => {
    const { stdout } = await bench.run(['top', '--times', '2', '--every', '100ms', '--json'])
    const looks = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { lines: unknown[] })
    expect(looks.map((look) => look.lines.length)).toEqual([1, 1])
  })

  it('ends with 0 at Ctrl-C', async () => {
    const running = bench.start(['top', '--every', '100ms'])
    await new Promise((resolve) => running.process.stdout!.once('data', resolve))
    running.kill('SIGINT')
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('help and version', () => {
  it('has a text with examples for every command', async () => {
    for (const command of ['run', 'ls', 'show', 'evict', 'top']) {
      const asked = await bench.run([command, '--help'])
      expect(asked).toMatchObject({ code: 0, stderr: '' })
      expect(asked.stdout).toMatch(
        new RegExp(`^holdfast ${command}: .*\n\nUsage\n[^]*\nExamples\n  holdfast ${command}`),
      )
      expect((await bench.run(['help', command])).stdout).toBe(asked.stdout)
      expect(Math.max(...asked.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(120)
    }
    expect((await bench.run(['--help'])).stdout).toContain('holdfast run NAME')
  })

  it('says its version', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    expect(await bench.run(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` })
  })

  it('refuses commands that it does not know', async () => {
    expect(await bench.run([])).toMatchObject({ code: 64, stdout: '', stderr: expect.stringContaining('Usage') })
    for (const args of [['frob'], ['help', 'frob'], ['constructor'], ['--frob']]) {
      expect(await bench.run(args)).toMatchObject({
        code: 64,
        stdout: '',
        stderr: expect.stringMatching(/^holdfast: [^\n]+\n$/),
      })
    }
  })
})

// Last: it takes away what the others look at.
describe('evict', () => {
  it('takes out one ticket by its id, the holder, or everyone', async () => {
    const tickets = async (): Promise<string[]> =>
      (await bench.lines('job:1')).flatMap((line) => line.tickets.map((ticket) => ticket.owner))
    expect((await bench.run(['evict', 'job:1', '--ticket', 'no-such-ticket'])).code).toBe(1)
    expect(await tickets()).toHaveLength(2)

    const [line] = await bench.lines('job:1')
    const evicted = await bench.run(['evict', 'job:1', '--ticket', line!.tickets[0]!.id, '--json'])
    expect(evicted.code).toBe(0)
    expect(JSON.parse(evicted.stdout)).toMatchObject({
      name: 'job:1',
      evicted: [{ fence: expect.stringMatching(/^\d+$/) }],
    })
    expect((await holder.ended).code).toBe(76)
    await bench.untilHeld('job:1', 0)
    expect(await tickets()).toEqual(['second'])

    const all = await bench.run(['evict', 'job:1', '--all'])
    expect(all).toMatchObject({ code: 0, stdout: expect.stringMatching(/^evicted holder second \(pid \d+ on .+\)\n$/) })
    expect((await waiter.ended).code).toBe(76)
    expect(await bench.run(['evict', 'job:1'])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^holdfast: there is nothing to evict/),
    })
  })
})

describe('a message', () => {
  it('leaves out the password of the URL, and only that', async () => {
    const { stderr } = await bench.run(['ls', '--store', 'postgres://host@127.0.0.1:1/db'])
    expect(stderr).toContain('host')
    expect(stderr).not.toContain('***')
    const { stderr: secret } = await bench.run(['ls', '--store', 'postgres://host:hunter2@127.0.0.1:1/db'])
    expect(secret).not.toContain('hunter2')
  })
})
