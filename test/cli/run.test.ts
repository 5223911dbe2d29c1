import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Bench, eventually } from './holdfast.js'

let bench: Bench
beforeAll(() => {
  bench = new Bench()
})
afterAll(() => bench.close())

describe('holdfast run', () => {
  it("passes the command's exit status, output and input through", async () => {
    const ended = await bench.run(['run', 'io', '--', 'sh', '-c', 'cat; echo oops >&2; exit 7'], { stdin: 'hello\n' })
    expect(ended).toEqual({ code: 7, signal: null, stdout: 'hello\n', stderr: 'oops\n' })
  })

  it('refuses a store that would keep nobody out, and a second name', async () => {
    const nobody = await bench.run(['run', 'x', '--store', 'memory:', '--', 'true'])
    expect([nobody.code, nobody.stderr]).toEqual([64, expect.stringMatching(/keeps no other command out/)])
    const two = await bench.run(['run', 'x', 'y', '--', 'true'])
    expect([two.code, two.stderr]).toEqual([64, expect.stringMatching(/One name is enough: "y"/)])
  })

  it('gives the command its name, fence and owner, and the fence grows', async () => {
    const script = 'echo "$HOLDFAST_NAME|$HOLDFAST_FENCE|$HOLDFAST_OWNER"'
    const fences: bigint[] = []
    for (let i = 0; i < 3; i += 1) {
      const { code, stdout } = await bench.run(['run', 'env ü', '--owner', 'me', '--', 'sh', '-c', script])
      expect(code).toBe(0)
      const [name, fence, owner] = stdout.trim().split('|')
      expect([name, owner]).toEqual(['env ü', 'me'])
      expect(fence).toMatch(/^\d+$/)
      fences.push(BigInt(fence!))
    }
    expect(fences[1]! > fences[0]! && fences[2]! > fences[1]!).toBe(true)
  })

  it('gives the command nothing but stdin, stdout and stderr', async () => {
    const script = 'for fd in /proc/$$/fd/*; do echo "${fd##*/}"; done'
    const plain = spawnSync('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' })
    const { stdout } = await bench.run(['run', 'fds', '--', 'sh', '-c', script])
    expect(stdout).toBe(plain.stdout)
  })

  it('exits 128 + N when signal N ended the command', async () => {
    expect((await bench.run(['run', 'sig', '--', 'sh', '-c', 'kill -9 $$'])).code).toBe(137)
    expect((await bench.run(['run', 'sig', '--', 'sh', '-c', 'kill -TERM $$'])).code).toBe(143)
  })

  it('exits 75 when the lock is taken, and says by whom', async () => {
    const holder = bench.start(['run', 'taken', '--owner', 'first', '--', 'sleep', '60'])
    await bench.untilHeld('taken')
    const refused = await bench.run(['run', 'taken', '--no-wait', '--', 'touch', bench.file('no')])
    expect(refused.code).toBe(75)
    expect(refused.stderr).toMatch(
      /^holdfast: 'taken' is taken, held by first \(pid \d+ on .+\).*holdfast show taken\n$/,
    )
    const late = await bench.run(['run', 'taken', '--wait', '300ms', '--', 'touch', bench.file('no')])
    expect(late.code).toBe(75)
    expect(late.stderr).toContain('Gave up after')
    expect(existsSync(bench.file('no'))).toBe(false)
    holder.kill('SIGTERM')
    expect((await holder.ended).code).toBe(143)
    expect((await bench.run(['run', 'taken', '--no-wait', '--', 'true'])).code).toBe(0)
  })

  it('runs commands one after the other, in the order in which they came', async () => {
    const log = bench.file('order')
    const go = bench.file('order-go')
    const first = bench.start([
      'run',
      'order',
      '--',
      'sh',
      '-c',
      `while ! [ -e ${go} ]; do sleep 0.05; done; echo 1 >> ${log}`,
    ])
    await bench.untilHeld('order')
    const second = bench.start(['run', 'order', '--', 'sh', '-c', `echo 2 >> ${log}`])
    await bench.untilHeld('order', 1)
    const third = bench.start(['run', 'order', '--wait', '1m', '--', 'sh', '-c', `echo 3 >> ${log}`])
    await bench.untilHeld('order', 2)
    writeFileSync(go, '')
    const codes = await Promise.all([first.ended, second.ended, third.ended])
    expect(codes.map(({ code }) => code)).toEqual([0, 0, 0])
    expect(readFileSync(log, 'utf8')).toBe('1\n2\n3\n')
  })

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)('passes %s on', async (signal) => {
    const ready = bench.file(signal)
    const script = `trap 'echo got; exit 9' ${signal.slice(3)}; touch ${ready}; while :; do sleep 0.05; done`
    const running = bench.start(['run', signal, '--', 'sh', '-c', script])
    await eventually(() => expect(existsSync(ready)).toBe(true))
    running.kill(signal)
    expect(await running.ended).toMatchObject({ code: 9, stdout: 'got\n' })
  })

  it('leaves the line when a signal ends the wait', async () => {
    const holder = bench.start(['run', 'patience', '--', 'sleep', '60'])
    await bench.untilHeld('patience')
    const waiter = bench.start(['run', 'patience', '--', 'true'])
    await bench.untilHeld('patience', 1)
    waiter.kill('SIGINT')
    expect(await waiter.ended).toMatchObject({ code: 130, stderr: '' })
    await bench.untilHeld('patience', 0)
    holder.kill('SIGTERM')
    await holder.ended
  })

  it('lets readers in together, and a writer alone', async () => {
    const reader = bench.start(['run', 'doc', '--read', '--', 'sleep', '60'])
    await bench.untilHeld('doc')
    expect((await bench.run(['run', 'doc', '--read', '--no-wait', '--', 'true'])).code).toBe(0)
    expect((await bench.run(['run', 'doc', '--write', '--no-wait', '--', 'true'])).code).toBe(75)
    reader.kill('SIGTERM')
    await reader.ended
    expect((await bench.run(['run', 'doc', '--write', '--no-wait', '--', 'true'])).code).toBe(0)
  })

  it('gives out as many permits as there are', async () => {
    const holder = bench.start(['run', 'gpu', '--permits', '2/3', '--', 'sleep', '60'])
    await bench.untilHeld('gpu')
    expect((await bench.run(['run', 'gpu', '--permits', '2/3', '--no-wait', '--', 'true'])).code).toBe(75)
    expect((await bench.run(['run', 'gpu', '--permits', '1/3', '--no-wait', '--', 'true'])).code).toBe(0)
    holder.kill('SIGTERM')
    await holder.ended
  })

  it('tells what happens as JSON lines with --json', async () => {
    const { stdout, stderr } = await bench.run([
      'run',
      'json',
      '--json',
      '--owner',
      'o',
      '--',
      'sh',
      '-c',
      'echo out; exit 4',
    ])
    expect(stdout).toBe('out\n')
    const [granted, ended] = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(granted).toMatchObject({ event: 'granted', name: 'json', owner: 'o', fence: expect.stringMatching(/^\d+$/) })
    expect(ended).toMatchObject({ event: 'ended', exitCode: 4, ours: true })
  })

  it('holds no longer than the command runs: what it leaves in the background runs on without the lock', async () => {
    const pidFile = bench.file('daemon')
    const { code } = await bench.run([
      'run',
      'daemon',
      '--',
      'sh',
      '-c',
      `sleep 30 >/dev/null 2>&1 & echo $! > ${pidFile}`,
    ])
    expect(code).toBe(0)
    expect((await bench.run(['run', 'daemon', '--no-wait', '--', 'true'])).code).toBe(0)
    process.kill(Number(readFileSync(pidFile, 'utf8')))
  })
})

describe('what cannot be run', () => {
  it('exits 127 and 126 like a shell', async () => {
    const missing = await bench.run(['run', 'x', '--', 'no-such-command-here'])
    expect(missing).toMatchObject({
      code: 127,
      stderr: expect.stringMatching(/^holdfast: no-such-command-here: not found\..*\n$/),
    })
    const script = bench.file('not-executable')
    writeFileSync(script, '#!/bin/sh\n')
    expect(await bench.run(['run', 'x', '--', script])).toMatchObject({
      code: 126,
      stderr: expect.stringContaining('EACCES'),
    })
    expect((await bench.run(['run', 'x', '--', bench.dir])).code).toBe(126)
    expect(await bench.lines('x')).toEqual([])
  })

  const wrong: [string, string[]][] = [
    ['no name', ['run']],
    ['no command', ['run', 'x']],
    ['no command after --', ['run', 'x', '--']],
    ['an empty command', ['run', 'x', '--', '']],
    ['no dashes', ['run', 'x', 'true']],
    ['no name before the dashes', ['run', '--', 'true']],
    ['an empty name', ['run', '', '--', 'true']],
    ['a name that is too long', ['run', 'x'.repeat(513), '--', 'true']],
    ['an unknown option', ['run', 'x', '--bogus', '--', 'true']],
    ['an option without its value', ['run', 'x', '--wait', '--', 'true']],
    ['a duration without unit', ['run', 'x', '--wait', '10', '--', 'true']],
    ['a negative duration', ['run', 'x', '--wait=-1s', '--', 'true']],
    ['a duration that is none', ['run', 'x', '--ttl', 'soon', '--', 'true']],
    ['a duration beyond all bounds', ['run', 'x', '--ttl', '9999h', '--', 'true']],
    ['a ttl that is too short', ['run', 'x', '--ttl', '10ms', '--', 'true']],
    ['a grace that is too short', ['run', 'x', '--grace', '0', '--', 'true']],
    ['a kill-after that leaves no time', ['run', 'x', '--ttl', '3s', '--kill-after', '2s', '--', 'true']],
    ['wait and no-wait', ['run', 'x', '--wait', '1s', '--no-wait', '--', 'true']],
    ['read and write', ['run', 'x', '--read', '--write', '--', 'true']],
    ['permits without total', ['run', 'x', '--permits', '2', '--', 'true']],
    ['more permits than there are', ['run', 'x', '--permits', '3/2', '--', 'true']],
    ['no permits', ['run', 'x', '--permits', '0/2', '--', 'true']],
    ['an owner that is too long', ['run', 'x', '--owner', 'o'.repeat(257), '--', 'true']],
    ['a store that is no URL', ['run', 'x', '--store', 'nonsense', '--', 'true']],
    ['a store nobody knows', ['run', 'x', '--store', 'frob://h', '--', 'true']],
  ]
  it.each(wrong)('exits 64 in one line for %s', async (_what, args) => {
    const ended = await bench.run(args)
    expect(ended.stderr).toMatch(/^holdfast: [^\n]+\n$/)
    expect(ended).toMatchObject({ code: 64, stdout: '' })
  })

  it('exits 69 in one line when the store cannot be used, and starts nothing', async () => {
    const broken = bench.file('broken.db')
    writeFileSync(broken, 'this is no database, and long enough to be sure of it. '.repeat(40))
    mkdirSync(bench.file('directory'))
    for (const path of [broken, bench.file('directory')]) {
      const ended = await bench.run(['run', 'x', '--store', `sqlite:${path}`, '--', 'touch', bench.file('never')])
      expect(ended).toMatchObject({ code: 69, stdout: '', stderr: expect.stringMatching(/^holdfast: [^\n]+\n$/) })
    }
    expect(existsSync(bench.file('never'))).toBe(false)
  })

  it('never shows a password', async () => {
    for (const store of [
      'redis://u:s3cr3t@127.0.0.1:1/x?bogus=1',
      'postgres://u:s3cr3t@127.0.0.1:1/db',
      'frob://u:s3cr3t@h/',
    ]) {
      for (const args of [
        ['run', 'x', '--store', store, '--', 'true'],
        ['ls', '--store', store],
      ]) {
        const ended = await bench.run(args)
        expect([64, 69]).toContain(ended.code)
        expect(ended.stderr + ended.stdout).not.toContain('s3cr3t')
        expect(ended.stderr).toMatch(/^holdfast: [^\n]+\n$/)
      }
    }
  })
})
