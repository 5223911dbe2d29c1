import type { Created, Reply, ZooKeeperClient } from './client.js'
import { CODE, type ZooKeeperError } from './errors.js'
import type { MultiResult, MultiStep } from './protocol.js'

export interface Creation extends Extract<MultiStep, { op: 'create' }> {
  readonly reply: Reply<Pick<Created, 'path'> & { readonly czxid: bigint }>
}

export interface Deletion extends Extract<MultiStep, { op: 'delete' }> {
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
  if (creations.length === 1) return createAlone(client, creations[0]!)
  send(
    client,
    creations.map((creation) => ({
      step: creation,
      bytes: creation.path.length + creation.data.length,
      done: (result, czxid) =>
        creation.reply(undefined, { path: result.op === 'create' ? result.path : creation.path, czxid }),
      failed: (error) => creation.reply(error, undefined),
      alone: () => createAlone(client, creation),
    })),
  )
}

function createAlone(client: ZooKeeperClient, { path, data, acl, mode, reply }: Creation): void {
  client.create(path, data, acl, mode, (error, created) =>
    reply(error, created === undefined ? undefined : { path: created.path, czxid: created.stat.czxid }),
  )
}

export function deleteTogether(client: ZooKeeperClient, deletions: readonly Deletion[]): void {
  if (deletions.length === 1) return client.delete(deletions[0]!.path, deletions[0]!.reply)
  send(
    client,
    deletions.map((deletion) => ({
      step: deletion,
      bytes: deletion.path.length,
      done: () => deletion.reply(undefined, true),
      failed: (error) => deletion.reply(error, undefined),
      alone: () => client.delete(deletion.path, deletion.reply),
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
