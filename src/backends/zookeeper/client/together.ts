import type { Created, Reply, ZooKeeperClient } from './client.js'
import { CODE, type ZooKeeperError } from './errors.js'
import type { Acl, Mode, MultiResult, MultiStep } from './protocol.js'

export interface Creation {
  readonly path: string
  readonly data: Uint8Array
  readonly acl: readonly Acl[]
  readonly mode: Mode
  readonly reply: Reply<Pick<Created, 'path'> & { readonly czxid: bigint }>
}

export interface Deletion {
  readonly path: string
  readonly reply: Reply<true>
}

/** One request, as a step of a transaction and by itself. */
interface Wish {
  readonly step: MultiStep
  readonly bytes: number
  done(result: MultiResult, zxid: bigint): void
  failed(error: ZooKeeperError): void
  alone(): void
}

/** What one transaction may hold: a server refuses packets of more than a megabyte, and does nothing else meanwhile. */
const MOST_STEPS = 64
const MOST_BYTES = 128 * 1024

/** Creates nodes, each below a parent of its own: all that one transaction creates has the same czxid. */
export function createTogether(client: ZooKeeperClient, creations: readonly Creation[]): void {
  send(
    client,
    creations.map(({ reply, ...create }) => ({
      step: { op: 'create', ...create },
      bytes: create.path.length + create.data.length,
      done: (result, czxid) => reply(undefined, { path: result.op === 'create' ? result.path : create.path, czxid }),
      failed: (error) => reply(error, undefined),
      alone: () =>
        client.create(create.path, create.data, create.acl, create.mode, (error, created) =>
          reply(error, created === undefined ? undefined : { path: created.path, czxid: created.stat.czxid }),
        ),
    })),
  )
}

export function deleteTogether(client: ZooKeeperClient, deletions: readonly Deletion[]): void {
  send(
    client,
    deletions.map(({ path, reply }) => ({
      step: { op: 'delete', path, version: -1 },
      bytes: path.length,
      done: () => reply(undefined, true),
      failed: (error) => reply(error, undefined),
      alone: () => client.delete(path, reply),
    })),
  )
}

/**
 * Sends requests in few transactions: the servers log, agree on and answer each of those once, whatever it holds.
 * Where one step spoils it for the others nothing was done, and each is asked for by itself.
 */
function send(client: ZooKeeperClient, wishes: readonly Wish[]): void {
  let portion: Wish[] = []
  let bytes = 0
  for (const wish of wishes) {
    if (portion.length === MOST_STEPS || (portion.length > 0 && bytes + wish.bytes > MOST_BYTES)) {
      sendPortion(client, portion)
      portion = []
      bytes = 0
    }
    portion.push(wish)
    bytes += wish.bytes
  }
  sendPortion(client, portion)
}

function sendPortion(client: ZooKeeperClient, portion: readonly Wish[]): void {
  if (portion.length <= 1) return portion[0]?.alone()
  client.multi(
    portion.map(({ step }) => step),
    (error, results, zxid) => {
      for (const [index, wish] of portion.entries()) {
        if (error === undefined) wish.done(results![index]!, zxid)
        else if (wasRefused(error)) wish.alone()
        else wish.failed(error)
      }
    },
  )
}

/** Whether a step was found to be impossible, so that surely none was done. Above -100 the servers or the connection failed. */
function wasRefused({ code }: ZooKeeperError): boolean {
  return code <= -100 && code !== CODE.sessionExpired
}
