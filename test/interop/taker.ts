import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ensure } from '../servers/index.js'

/** A program of another library that takes one lock, as the test tells it. */
export interface Taker {
  /** Sends a word and resolves with the answer to it: 'held', 'refused', 'released'. */
  tell(word: 'acquire' | 'try' | 'release'): Promise<string>
  end(): Promise<void>
}

export interface Takers {
  start(hosts: string, path: string, kind: 'mutex' | 'read' | 'write'): Promise<Taker>
  remove(): Promise<void>
}

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

const JARS = [
  'curator-recipes',
  'curator-framework',
  'curator-client',
  'zookeeper',
  'zookeeper-jute',
  'slf4j-api',
  'slf4j-nop',
  'guava',
]

/** Apache Curator's recipes, compiled for the test. */
export async function curatorTakers(): Promise<Takers> {
  const javac = await ensure('javac', '/usr/share/java/curator-recipes.jar')
  const java = await ensure('java')
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-curator-'))
  const classPath = JARS.map((jar) => `/usr/share/java/${jar}.jar`).join(':')
  await promisify(execFile)(javac, ['-cp', classPath, '-d', directory, here('CuratorTaker.java')])
  const command = [java, '-Xmx128m', '-XX:TieredStopAtLevel=1', '-cp', `${directory}:${classPath}`, 'CuratorTaker']
  return {
    start: (...args) => startTaker([...command, ...args]),
    remove: () => rm(directory, { recursive: true }),
  }
}

/** kazoo, with its pattern for Curator's nodes. */
export async function kazooTakers(): Promise<Takers> {
  await ensure('/usr/lib/python3/dist-packages/kazoo/__init__.py')
  // Debian's own Python has Debian's kazoo.
  return {
    start: (...args) => startTaker(['/usr/bin/python3', here('kazoo_taker.py'), ...args]),
    remove: () => Promise.resolve(),
  }
}

async function startTaker([file, ...args]: readonly string[]): Promise<Taker> {
  const child: ChildProcessWithoutNullStreams = spawn(file!, args)
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<string> => {
    const { value, done } = await answers.next()
    if (done === true) throw new Error(`${file} ended: ${errors}`)
    return value
  }
  // One question at a time: an answer belongs to the question before it.
  let last = next()
  await last
  return {
    tell: (word) => {
      const before = last
      last = (async () => {
        await before
        child.stdin.write(`${word}\n`)
        return await next()
      })()
      return last
    },
    end: async () => {
      const ended = once(child, 'exit')
      child.stdin.end('end\n')
      setTimeout(() => child.kill('SIGKILL'), 3_000).unref()
      await ended
    },
  }
}
