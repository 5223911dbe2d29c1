import { existsSync, readFileSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { Bench } from './holdfast.js'

const bench = new Bench()
afterAll(() => bench.close())

describe('holdfast lab', () => {
  it('plays a cell, prints its verdict, writes the report, and ends with 0 when all is as expected', async () => {
    const out = bench.file('out')
    const args = ['lab', 'holdfast-sqlite', '--situation', 'holder-crashes', '--seed', '5', '--out', out]
    const { code, stdout, stderr } = await bench.run(args)
    expect(stderr).toBe('')
    expect(stdout).toContain('✓ safe')
    expect(stdout).toContain('1 cell in')
    expect(stdout).toContain('all as expected')
    expect(readFileSync(`${out}/report.html`, 'utf8')).toContain('--situation holder-crashes --seed 5')
    expect(existsSync(`${out}/summary.svg`)).toBe(true)
    expect(code).toBe(0)
  })

  it('lists what there is', async () => {
    const { code, stdout } = await bench.run(['lab', '--list'])
    expect(stdout).toMatch(/^redis-set-nx-px-blind-del +Redis/m)
    expect(stdout).toMatch(/^holder-paused +holder paused/m)
    expect(code).toBe(0)
  })

  it.each([
    [['lab', 'no-such-recipe'], "There is no recipe 'no-such-recipe'"],
    [['lab', '--situation', 'flood'], "There is no situation 'flood'"],
    [['lab', '--seed', 'x'], "'x' is not a whole number"],
    [['lab', '--wrong'], '--wrong'],
  ])('says what is wrong with %j', async (args, message) => {
    const { code, stderr } = await bench.run(args)
    expect(stderr).toContain(message)
    expect(stderr).toContain('See: holdfast lab --help')
    expect(code).toBe(64)
  })

  it('helps', async () => {
    const { code, stdout } = await bench.run(['lab', '--help'])
    expect(stdout).toContain('holdfast lab: see what locks do')
    expect(code).toBe(0)
  })
})
