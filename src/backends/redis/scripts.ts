import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A Lua script, known to the server by its hash. */
export interface Script {
  readonly text: string
  readonly sha: string
}

export interface Scripts {
  readonly takeOne: Script
  readonly giveOne: Script
  readonly take: Script
  readonly give: Script
  readonly join: Script
  readonly renew: Script
  readonly leave: Script
  readonly view: Script
  readonly raise: Script
}

/**
 * The scripts, for a server of this version. Letting go and keeping alive must work when memory is full, and
 * since version 7 a script says so itself; before, a script that has deleted something may write.
 */
export function scripts(majorVersion: number): Scripts {
  const always = majorVersion >= 7 ? '#!lua flags=allow-oom\n' : ''
  const line = read('line')
  const withLine = (name: string): string => read(name).replace('-- include line.lua\n', () => line)
  return {
    takeOne: script(read('take-one')),
    giveOne: script(read('give-one')),
    take: script(read('take')),
    give: script(read('give')),
    join: script(withLine('join')),
    renew: script(always + withLine('renew')),
    leave: script(always + withLine('leave')),
    view: script(read('view')),
    raise: script(read('raise')),
  }
}

function read(name: string): string {
  return readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
}

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
