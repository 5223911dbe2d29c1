/** One of the eight: bumps the counter in the file, so many times, with or without a lock. */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { bootMs, type FromWorker, type ToWorker } from './protocol.js'

const [mode, path, times] = process.argv.slice(2)
const file = openSync(path!, 'r+')
const locks = mode === 'locked' ? await connect() : undefined

process.on('message', (message: ToWorker) => {
  if (message === 'go') work().catch(failed)
})
tell({ type: 'ready' })

async function work(): Promise<void> {
  for (let i = 0; i < Number(times); i += 1) {
    if (locks === undefined) await bump()
    else await locks.lock('demo:counter').use((lease) => bump(lease.fence))
    await sleep(Math.random() * 4)
  }
  await locks?.close()
  closeSync(file)
  process.disconnect()
}

function failed(error: unknown): void {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}

/** Read, think, write: what every lost update is made of. */
async function bump(fence?: bigint): Promise<void> {
  const from = bootMs()
  const text = Buffer.alloc(12)
  readSync(file, text, 0, 12, 0)
  const value = Number(text.toString())
  await sleep(1 + Math.random() * 3)
  writeSync(file, String(value + 1).padEnd(12), 0)
  tell({ type: 'bump', from, to: bootMs(), ...(fence === undefined ? undefined : { fence: fence.toString() }) })
}

function tell(message: FromWorker): void {
  process.send?.(message)
}
