// Everything that can be said of the code without running it. Stops at the first complaint.
import { spawnSync } from 'node:child_process'

const steps = [
  ['format', 'biome', ['format', '.']],
  ['types', 'tsc', ['-p', 'tsconfig.json']],
  ['lint', 'oxlint', ['--type-aware', '--deny-warnings']],
  ['build', 'node', ['scripts/build.js']],
  ['unused code', 'knip', []],
  ['import direction', 'depcruise', ['dist', '--config', '.dependency-cruiser.cjs', '--output-type', 'err']],
  ['packaging', 'publint', ['--strict']],
  ['packaging (types)', 'attw', ['--pack', '.', '--profile', 'esm-only']],
]

for (const [title, command, args] of steps) {
  console.log(`\n— ${title}`)
  const run = spawnSync('npx', ['--no-install', command, ...args], { stdio: 'inherit' })
  if (run.status !== 0) {
    console.error(`\ncheck: ${title} failed`)
    process.exit(run.status ?? 1)
  }
}
console.log('\ncheck: clean')
