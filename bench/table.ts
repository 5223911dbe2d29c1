import type { Extra, Goal, Results, StoreBench } from './contender.js'

/** The results as a table for people, ratios beside the first raw contender. */
export function table(store: StoreBench, results: Results): string {
  const raw = store.contenders.find((one) => one.role === 'raw')
  const rows = [['', '1 in flight', 'CPU', '64 in flight', 'CPU', 'drain 2×50', '× ideal', 'hot key/s', 'most : least']]
  for (const { name, not } of store.contenders) {
    const { sequential, inflight, sequentialCpu, inflightCpu, drain, hot } = results[name] ?? {}
    const base = raw === undefined ? undefined : results[raw.name]
    rows.push([
      name,
      rate(sequential, base?.sequential) ?? not?.sequential ?? '–',
      cpu(sequentialCpu),
      rate(inflight, base?.inflight) ?? not?.inflight ?? '–',
      cpu(inflightCpu),
      drain === undefined
        ? (not?.drain ?? '–')
        : `${drain.ms.toFixed(0)} ms${drain.served < 100 ? ` (${drain.served} of 100)` : ''}`,
      drain === undefined ? '–' : (drain.ms / drain.idealMs).toFixed(2),
      hot === undefined ? (not?.hot ?? '–') : (hot.total / 3).toFixed(0),
      hot === undefined ? '–' : `${hot.most} : ${hot.least}`,
    ])
  }
  return `\n${store.name}\n${align(rows)}`
}

export function extraLines(extras: readonly Extra[]): string[] {
  return extras.map(({ title, values }) => {
    const list = Object.entries(values).map(
      ([key, value]) => `  ${key}: ${typeof value === 'number' ? short(value) : value}`,
    )
    return `\n${title}\n${list.join('\n')}`
  })
}

export function goalLines(goals: readonly Goal[]): string {
  const lines = goals.map(({ what, reached, sense, wanted }) => {
    const ok = sense === '≥' ? reached >= wanted : reached <= wanted
    return `${ok ? 'PASS' : 'MISS'}  ${what}: ${reached.toFixed(2)} (${sense} ${wanted})`
  })
  return `\n${lines.join('\n')}`
}

function rate(value: number | undefined, base: number | undefined): string | undefined {
  if (value === undefined) return undefined
  return base === undefined ? `${short(value)}/s` : `${short(value)}/s (${(value / base).toFixed(2)}×)`
}

function cpu(micros: number | undefined): string {
  return micros === undefined ? '' : `${micros.toFixed(0)} µs`
}

function short(value: number): string {
  return value >= 10_000 ? `${(value / 1_000).toFixed(1)}k` : value >= 100 ? value.toFixed(0) : value.toFixed(2)
}

function align(rows: readonly string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows
    .map((row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '))
    .join('\n')
}
