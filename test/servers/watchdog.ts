import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A small shell beside the test process that ends what the process leaves behind, however it ends:
 * its standard input closes with the process, also after a kill -9, and then it kills and removes
 * what it was told of. It is a session of its own, so that no Ctrl-C reaches it.
 */
const SCRIPT = `
pids= paths=
while read -r word value; do
  case $word in
    pid) pids="$pids $value" ;;
    gone) rest=; for pid in $pids; do [ "$pid" = "$value" ] || rest="$rest $pid"; done; pids=$rest ;;
    path) paths="$paths $value" ;;
    free) rest=; for path in $paths; do [ "$path" = "$value" ] || rest="$rest $path"; done; paths=$rest ;;
  esac
done
for pid in $pids; do kill -KILL "$pid"; done 2>/dev/null
for path in $paths; do rm -rf "$path" || { sleep 1; rm -rf "$path"; }; done 2>/dev/null
`

let shell: ChildProcess | undefined

function tell(line: string): void {
  if (shell === undefined) {
    shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: '/' })
    // It outlives us on purpose and must not keep us alive.
    shell.unref()
    if (shell.stdin instanceof Socket) shell.stdin.unref()
  }
  shell.stdin?.write(`${line}\n`)
}

/** Kill this process when we end. */
export function guardPid(pid: number): void {
  tell(`pid ${pid}`)
}

/** It has ended: its number may soon be someone else's. */
export function forgetPid(pid: number): void {
  tell(`gone ${pid}`)
}

/** Remove this file or directory when we end. */
export function guardPath(path: string): void {
  tell(`path ${path}`)
}

/** It has been removed. */
export function forgetPath(path: string): void {
  tell(`free ${path}`)
}

/** A new directory under the system's temporary one, that other users (postgres) may enter. */
export function temporaryDirectory(name: string): string {
  const path = mkdtempSync(join(tmpdir(), `holdfast-${name}-`))
  chmodSync(path, 0o755)
  guardPath(path)
  return path
}
