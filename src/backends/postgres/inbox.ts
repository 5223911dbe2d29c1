import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { connectClient, type Dial } from './connections.js'
import { destroy } from './destroy.js'
import { watched } from './watchdog.js'

/** How long a notification may take to prove that one gets through. */
const PROOF_MS = 1_000

/** The first and the longest pause before a broken connection is made anew. */
const BACK_OFF_MS = [100, 3_000] as const

/** The channel of one client, and the connection that listens to it. A message saves time; it is never needed. */
export class Inbox {
  readonly channel: string = `holdfast_${randomBytes(12).toString('hex')}`
  readonly #dial: Dial
  readonly #message: (payload: string) => void
  readonly #back: () => void
  readonly #shared: string | undefined
  #client: Client | undefined
  #closed = false
  #retry: NodeJS.Timeout | undefined

  /** `shared` is a channel that other clients listen to as well. */
  constructor(dial: Dial, message: (payload: string) => void, back: () => void, shared?: string) {
    this.#dial = dial
    this.#shared = shared
    this.#message = message
    this.#back = back
  }

  /** Starts to listen. False: a pooler stands between that gives each statement another session. */
  async open(): Promise<boolean> {
    const client = await this.#listen()
    let isOurs = false
    try {
      isOurs = await isOneSession(client, this.#dial)
    } finally {
      if (!isOurs) destroy(client)
    }
    if (isOurs) this.#watch(client)
    return isOurs
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    const client = this.#client
    this.#client = undefined
    if (client !== undefined) void client.end().catch(() => destroy(client))
  }

  async #listen(): Promise<Client> {
    const client = await connectClient(this.#dial)
    client.on('notification', ({ channel, payload }) => {
      if ((channel === this.channel || channel === this.#shared) && payload !== undefined && payload !== '')
        this.#message(payload)
    })
    try {
      await watched(client, client.query(`LISTEN ${this.channel}`))
      if (this.#shared !== undefined) await watched(client, client.query(`LISTEN ${this.#shared}`))
    } catch (cause) {
      destroy(client)
      throw cause
    }
    return client
  }

  #watch(client: Client): void {
    if (this.#closed) {
      destroy(client)
      return
    }
    this.#client = client
    client.once('end', () => {
      if (this.#client !== client) return
      this.#client = undefined
      this.#again(BACK_OFF_MS[0])
    })
  }

  #again(pauseMs: number): void {
    if (this.#closed) return
    this.#retry = setTimeout(() => {
      this.#listen().then(
        (client) => {
          this.#watch(client)
          // What was told in between is lost: whoever waits looks for himself.
          this.#back()
        },
        () => this.#again(Math.min(pauseMs * 2, BACK_OFF_MS[1])),
      )
    }, pauseMs).unref()
  }
}

/**
 * Whether this connection is one session of the server. A pooler makes up the process id it greets with;
 * behind one that hands out sessions by transaction, an idle connection hears no notification.
 */
export async function isOneSession(client: Client, dial: Dial): Promise<boolean> {
  const greeted = (client as unknown as { processID?: number | null }).processID
  const { rows } = await watched(client, client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid'))
  if (greeted === rows[0]?.pid) return true
  const channel = `holdfast_${randomBytes(12).toString('hex')}`
  await watched(client, client.query(`LISTEN ${channel}`))
  const other = await connectClient(dial)
  try {
    return await new Promise<boolean>((resolve, reject) => {
      const timer = setTimeout(() => resolve(false), PROOF_MS)
      client.on('notification', (heard) => {
        if (heard.channel !== channel) return
        clearTimeout(timer)
        resolve(true)
      })
      other.query(`NOTIFY ${channel}`).catch(reject)
    })
  } finally {
    void other.end().catch(() => destroy(other))
    await watched(client, client.query(`UNLISTEN ${channel}`))
  }
}
