// npm run bench -- STORE… [--json]: Holdfast beside the raw store and its peers, in one run, as ratios.
import { parseArgs } from 'node:util'
import type { Contender, Extra, Goal, Results, StoreBench } from './contender.js'
import { installPeers } from './peer.js'
import { drain, hot, pairs } from './scenarios.js'
import { loadStore, storeNames } from './stores.js'
import { extraLines, goalLines, table } from './table.js'

const PAIRS_MS = 2_000

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
    for (const contender of store.contenders) results[contender.name] = await measureOne(store, contender, started.url)
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

async function measureOne(store: StoreBench, contender: Contender, url: string): Promise<Results[string]> {
  const may = (scenario: 'sequential' | 'inflight' | 'drain' | 'hot') => contender.not?.[scenario] === undefined
  const say = (scenario: string) => progress(`${store.name}: ${contender.name}: ${scenario}`)
  const result: Results[string] = {}
  const locker = await contender.open(url)
  say('sequential')
  if (may('sequential')) result.sequential = await pairs(locker, 1, PAIRS_MS)
  say('64 in flight')
  if (may('inflight')) result.inflight = await pairs(locker, 64, PAIRS_MS)
  await locker.close()
  if (store.oneProcess === true) return result
  say('drain')
  if (may('drain')) result.drain = await drain(store, contender, url)
  say('hot key')
  if (may('hot')) result.hot = await hot(store, contender, url)
  return result
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
  else if (text !== '') process.stderr.write(`${text}\n`)
}
