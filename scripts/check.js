// Everything that can be said of the code without running it. Stops at the first complaint.
import { spawnSync } from 'node:child_process'

const steps = [
  { title: 'format', command: ['biome', 'format', '.'] },
  { title: 'build', command: ['node', 'scripts/build.js'] },
  { title: 'types', command: ['tsc', '-p', 'tsconfig.json'] },
  { title: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'] },
  { title: 'unused code', command: ['knip'] },
  {
    title: 'import direction',
    command: ['depcruise', 'dist', '--config', '.dependency-cruiser.cjs', '--output-type', 'err'],
  },
  { title: 'packaging', command: ['publint', '--strict'] },
  { title: 'packaging (types)', command: ['attw', '--pack', '.', '--profile', 'esm-only'] },
]

for (const { title, command } of steps) {
  console.log(`\n— ${title}`)
  const run = spawnSync('npx', ['--no-install', ...command], { stdio: 'inherit' })
  if (run.status !== 0) {
    console.error(`\ncheck: ${title} failed`)
    process.exit(run.status ?? 1)
  }
}
console.log('\ncheck: clean')
