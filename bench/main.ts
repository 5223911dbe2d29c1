// npm run bench -- STORE… [--json]: Holdfast beside the raw store and its peers, in one run, as ratios.
import { parseArgs } from 'node:util'
import type { Contender, Extra, Goal, Locker, Results, Runner, Scenario, StoreBench } from './contender.js'
import { installPeers } from './peer.js'
import { drains, hot, pairs } from './scenarios.js'
import { loadStore, storeNames } from './stores.js'
import { extraLines, goalLines, table } from './table.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false } },
})
if (values.help || positionals.length === 0) {
  console.log(`npm run bench -- STORE… [--json]\n\nStores: ${storeNames().join(', ')}`)
  process.exit(values.help ? 0 : 64)
}

installPeers()
let missed = 0
for (const name of positionals) missed += await measure(await loadStore(name))
process.exitCode = missed > 0 ? 1 : 0

async function measure(store: StoreBench): Promise<number> {
  const started = await store.start()
  const results: Results = {}
  let extras: Extra[] = []
  try {
    for (const { name } of store.contenders) results[name] = {}
    await measurePairs(store, started.url, results)
    if (store.oneProcess !== true) await measureWaiting(store, started.url, results)
    if (store.extras !== undefined) {
      progress(`${store.name}: further measurements`)
      extras = await store.extras(started.url)
    }
  } finally {
    await started.stop()
  }
  progress('')
  const goals: Goal[] = [...store.goals(results), ...extras.flatMap((extra) => extra.goals ?? [])]
  if (values.json) console.log(JSON.stringify({ store: store.name, results, extras, goals }))
  else console.log([table(store, results), ...extraLines(extras), goalLines(goals)].join('\n'))
  return goals.filter(({ reached, sense, wanted }) => (sense === '≥' ? reached < wanted : reached > wanted)).length
}

function may(contender: Contender, scenario: Scenario): boolean {
  return contender.not?.[scenario] === undefined
}

async function measurePairs(store: StoreBench, url: string, results: Results): Promise<void> {
  const lockers = new Map<string, Locker | Runner>()
  try {
    for (const contender of store.contenders) {
      if (may(contender, 'sequential') || may(contender, 'inflight')) {
        lockers.set(contender.name, await contender.open(url))
      }
    }
    // Many in flight first: that also warms up what one after the other would take long to.
    for (const [scenario, inFlight] of [['inflight', 64] as const, ['sequential', 1] as const]) {
      progress(`${store.name}: ${inFlight} in flight, in laps`)
      const taking = store.contenders.filter((one) => may(one, scenario)).map(({ name }) => name)
      const measured = await pairs(new Map([...lockers].filter(([name]) => taking.includes(name))), inFlight)
      for (const [name, { perSecond, cpuMicros }] of measured) {
        results[name]![scenario] = perSecond
        results[name]![`${scenario}Cpu`] = cpuMicros
      }
    }
  } finally {
    await Promise.all([...lockers.values()].map((locker) => locker.close()))
  }
}

async function measureWaiting(store: StoreBench, url: string, results: Results): Promise<void> {
  progress(`${store.name}: drains`)
  const draining = store.contenders.filter((contender) => may(contender, 'drain'))
  for (const [name, drain] of await drains(store, draining, url)) results[name]!.drain = drain
  for (const contender of store.contenders) {
    if (!may(contender, 'hot')) continue
    progress(`${store.name}: ${contender.name}: hot key`)
    results[contender.name]!.hot = await hot(store, contender, url)
  }
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
  else if (text !== '') process.stderr.write(`${text}\n`)
}
