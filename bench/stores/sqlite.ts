import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { type Contender, goal, type StoreBench } from '../contender.js'
import { holdfast } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { importPeer } from '../peer.js'

/** One transaction each, with the library and the settings that Holdfast uses. Only the cost of the store: it excludes nobody. */
const raw: Contender = {
  name: 'raw sqlite',
  role: 'raw',
  not: { drain: 'waits for nobody', hot: 'waits for nobody' },
  open: async (url) => {
    const db = new Database(`${pathOf(url)}-raw`)
    for (const pragma of [
      'page_size = 1024',
      'journal_mode = WAL',
      'synchronous = NORMAL',
      'wal_autocheckpoint = 4000',
    ]) {
      db.exec(`PRAGMA ${pragma}`)
    }
    db.exec(
      'CREATE TABLE IF NOT EXISTS locks (n INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, owner TEXT NOT NULL)',
    )
    const begin = db.prepare('BEGIN IMMEDIATE')
    const insert = db.prepare('INSERT INTO locks (name, owner) VALUES (?, ?)')
    const commit = db.prepare('COMMIT')
    const remove = db.prepare('DELETE FROM locks WHERE n = ?')
    return {
      acquire: async (name) => {
        begin.run()
        const { lastInsertRowid } = insert.run(name, 'bench')
        commit.run()
        return async () => remove.run(lastInsertRowid)
      },
      close: async () => void db.close(),
    }
  },
}

interface ProperLockfile {
  default: { lock(file: string, options: object): Promise<() => Promise<void>> }
}

const properLockfile: Contender = {
  name: 'proper-lockfile',
  role: 'peer',
  open: async (url) => {
    const { default: lockfile } = await importPeer<ProperLockfile>('proper-lockfile')
    const files = new Set<string>()
    // It does not wait by itself: it tries again, here as often as it can be told to without a busy loop.
    const retries = { forever: true, minTimeout: 1, maxTimeout: 5 }
    return {
      acquire: async (name) => {
        const file = `${pathOf(url)}-${encodeURIComponent(name)}`
        if (!files.has(file)) writeFileSync(file, '')
        files.add(file)
        return await lockfile.lock(file, { retries })
      },
      close: async () => {},
    }
  },
}

function pathOf(url: string): string {
  return url.slice('sqlite:'.length)
}

const store: StoreBench = {
  name: 'sqlite',
  start: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
    return { url: `sqlite:${join(folder, 'locks.db')}`, stop: async () => rmSync(folder, { recursive: true }) }
  },
  contenders: [raw, properLockfile, holdfast],
  goals: (results) => {
    const ours = results['holdfast']!
    const peer = results['proper-lockfile']!
    return [
      goal('64 in flight beside raw', ours.inflight! / results['raw sqlite']!.inflight!, '≥', 2),
      goal('uncontended beside proper-lockfile, 64 in flight', ours.inflight! / peer.inflight!, '≥', 10),
      goal('drain beside the ideal', ours.drain!.ms / ours.drain!.idealMs, '≤', 2),
      goal('hot key: most served beside least served', ours.hot!.most / ours.hot!.least, '≤', 1.2),
    ]
  },
  extras: async (url) => [await kept(url), await longLine(url)],
}
export default store
