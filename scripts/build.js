// Compiles src/ to dist/ and copies what tsc does not know: .lua, .sql, .html and the like.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
const tsc = spawnSync('npx', ['--no-install', 'tsc', '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
if (tsc.status !== 0) process.exit(tsc.status ?? 1)
cpSync('src', 'dist', { recursive: true, filter: (path) => !path.endsWith('.ts') })
if (existsSync('dist/cli/main.js')) chmodSync('dist/cli/main.js', 0o755)
