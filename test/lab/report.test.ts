import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Operation } from '../../lab/checker/history.js'
import type { Recipe } from '../../lab/recipe.js'
import { page as reportPage } from '../../lab/report/page.js'
import { summary } from '../../lab/report/summary.js'
import type { Cell } from '../../lab/run.js'
import type { Evidence, Situation } from '../../lab/situation.js'
import { judge } from '../../lab/verdict.js'
import { ensure } from '../servers/index.js'

function recipe(name: string, title: string, fenced: boolean): Recipe {
  const offers = { ttl: true, blocking: true, reentrant: false }
  const open: Recipe['open'] = async () => {
    throw new Error('Nothing is played here.')
  }
  return { name, title, store: 'redis', story: 'A story with <b>marks</b> & "quotes".', fenced, offers, open }
}

function situation(name: string, title: string): Situation {
  return { name, title, story: `What happens: ${title}.`, run: async () => {} }
}

const acquire: Operation = {
  owner: 'A',
  call: 'acquire',
  lock: 'lock 1',
  weight: 1,
  capacity: 1,
  from: 0,
  to: 4,
  answer: 'yes',
}
const twoHolders: Evidence = {
  seed: 7,
  ttlMs: 700,
  ms: 1_000,
  history: [
    acquire,
    { ...acquire, owner: 'B', from: 300, to: 800 },
    { ...acquire, owner: 'C', from: 810, to: 815, answer: 'no' },
    { ...acquire, owner: 'B', call: 'release', from: 950, to: 952 },
  ],
  marks: [{ at: 100, kind: 'fault', label: 'stopped <here>', owner: 'A' }],
  stretches: [{ owner: 'A', from: 100, to: 790, label: 'stopped' }],
  visits: [{ owner: 'A', from: 90, to: 850, outcome: 'clobbered' }],
  tally: { stored: 2, overlaps: 1, lostUpdates: 1, stale: 0 },
  facts: [],
}
const fine: Evidence = { ...twoHolders, history: [acquire], tally: { ...twoHolders.tally, lostUpdates: 0 }, visits: [] }

const recipes = [recipe('redis-spin', 'Redis: <broken>', false), recipe('holdfast-redis', 'Holdfast on Redis', true)]
const situations = [situation('holder-paused', 'holder paused'), situation('re-entry', 'holder re-enters')]
const cells: Cell[] = recipes.flatMap((one, row) =>
  situations.map((two, column) => {
    const evidence: Evidence = column === 1 ? { ...fine, notOffered: 'no such thing' } : row === 0 ? twoHolders : fine
    return { recipe: one, situation: two, evidence, verdict: judge(one, evidence) }
  }),
)

const directory = mkdtempSync(join(tmpdir(), 'holdfast-report-'))
const file = join(directory, 'report.html')
let browser: Browser

beforeAll(async () => {
  writeFileSync(file, reportPage({ cells, recipes, situations, seed: 7, seconds: 1 }))
  writeFileSync(join(directory, 'summary.svg'), summary(cells, recipes, situations))
  browser = await chromium.launch({ executablePath: await ensure('chromium'), args: ['--no-sandbox'] })
})

afterAll(async () => {
  await browser?.close()
  rmSync(directory, { recursive: true, force: true })
})

async function opened(options: { dark?: boolean; width?: number } = {}): Promise<{ page: Page; troubles: string[] }> {
  const page = await browser.newPage({
    colorScheme: options.dark === true ? 'dark' : 'light',
    viewport: { width: options.width ?? 1300, height: 900 },
  })
  const troubles: string[] = []
  page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()))
  page.on('pageerror', (error) => troubles.push(error.message))
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== pathToFileURL(file).href) troubles.push(`asked for ${request.url()}`)
  })
  await page.goto(pathToFileURL(file).href)
  return { page, troubles }
}

describe('the report in a browser', () => {
  test('shows the matrix with a word and a sign in each cell, and needs nothing else', async () => {
    const { page, troubles } = await opened()
    expect(await page.locator('tbody td a').allInnerTexts()).toEqual([
      '✗ unsafe',
      '· not offered',
      '✓ safe',
      '· not offered',
    ])
    expect(await page.locator('tbody tr.group').allInnerTexts()).toEqual(['REDIS', 'HOLDFAST'])
    expect(await page.locator('section.sheet:visible').count()).toBe(0)
    expect(troubles).toEqual([])
    await page.close()
  })

  test('opens a cell with its picture, and goes on by keys', async () => {
    const { page, troubles } = await opened()
    await page.locator('tbody td a').first().click()
    const sheet = page.locator('section.sheet:visible')
    expect(await sheet.locator('h3').innerText()).toBe('Redis: <broken>\nholder paused')
    expect(await sheet.locator('.verdict').innerText()).toContain('A and B held it at the same time')
    expect(await sheet.locator('pre').first().innerText()).toContain("B acquire 'lock 1': yes")
    const picture = await sheet.locator('svg.timeline').boundingBox()
    expect(picture?.width).toBeGreaterThan(600)
    expect(await sheet.locator('.hold').count()).toBe(2)
    expect(await sheet.locator('.clash.broke').count()).toBe(1)
    expect(await sheet.locator('.mark.fault text').textContent()).toContain('A: stopped <here>')
    expect(await focused(page)).toBe('H3')
    await page.keyboard.press('ArrowRight')
    await page.waitForFunction(`location.hash === '#redis-spin--re-entry'`)
    await page.keyboard.press('Escape')
    await page.waitForFunction(`document.querySelector('.sheet:target') === null`)
    // Back in the matrix, where one had got to.
    await page.waitForFunction(`document.activeElement.getAttribute('href') === '#redis-spin--re-entry'`)
    expect(troubles).toEqual([])
    await page.close()
  })

  test('is readable in the dark: every verdict stands out from what is behind it', async () => {
    for (const dark of [false, true]) {
      const { page } = await opened({ dark })
      const colours = await page.evaluate<[string, string, string][]>(`[...document.querySelectorAll('tbody td a')].map(
        (cell) => [cell, cell, document.querySelector('.matrix')].map((one, index) =>
          getComputedStyle(one)[index === 0 ? 'color' : 'backgroundColor']))`)
      const contrasts = colours.map(([text, own, card]) => contrast(text, own === 'rgba(0, 0, 0, 0)' ? card : own))
      expect(Math.min(...contrasts)).toBeGreaterThan(4.5)
      await page.close()
    }
  })

  test('fits a narrow window: the matrix scrolls, the page does not', async () => {
    const { page } = await opened({ width: 400 })
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    await page.locator('tbody td a').first().click()
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    // A picture shrunk to the window could not be read: it scrolls by itself.
    const picture = await page.locator('section.sheet:visible svg.timeline').boundingBox()
    expect(picture?.width).toBeGreaterThan(600)
    await page.close()
  })

  test('the summary is a picture that a browser draws', async () => {
    const page = await browser.newPage()
    await page.goto(pathToFileURL(join(directory, 'summary.svg')).href)
    expect(await page.locator('text.sign').count()).toBe(4 + 4)
    await page.close()
  })
})

async function focused(page: Page): Promise<string> {
  return await page.evaluate<string>('document.activeElement.tagName')
}

/** By how much the page is wider than the window. */
async function overflow(page: Page): Promise<number> {
  return await page.evaluate<number>(
    `Math.max(...[document.documentElement, ...document.querySelectorAll('.sheet:target')].map((one) => one.scrollWidth - innerWidth))`,
  )
}

/** The contrast of two colours, as accessibility guidelines count it. */
function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].toSorted((a, b) => a - b)
  return (high! + 0.05) / (low! + 0.05)
}

function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map((part) => {
    const value = Number(part) / 255
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
