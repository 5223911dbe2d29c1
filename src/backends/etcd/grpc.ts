/** gRPC's own part: how a message lies in the body of a request, and how a call ended. */
import type { Fields } from './hpack.js'

/** What gRPC or the connection said instead of an answer. */
export class RpcError extends Error {
  /** gRPC's status code; 14 (unavailable) for a broken connection, 4 for a call that took too long. */
  readonly status: number
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RpcError'
    this.status = status
  }
}

export const DEADLINE_EXCEEDED = 4
export const UNAVAILABLE = 14
export const UNAUTHENTICATED = 16

/** One byte (not compressed), four of length, the message. */
export function framed(message: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(5 + message.length)
  bytes[0] = 0
  bytes.writeUInt32BE(message.length, 1)
  message.copy(bytes, 5)
  return bytes
}

/** Puts messages together again from the pieces in which they arrive. */
export class MessageReader {
  #pieces: Buffer[] = []
  #have = 0
  readonly #message: (body: Buffer) => void

  constructor(message: (body: Buffer) => void) {
    this.#message = message
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#have += piece.length
    // A long answer comes in very many pieces: they are put together once, when all are there.
    while (this.#have >= 5) {
      const end = 5 + this.#lengthOfFirst()
      if (this.#have < end) return
      const bytes = this.#together()
      const rest = bytes.subarray(end)
      this.#pieces = rest.length === 0 ? [] : [rest]
      this.#have = rest.length
      this.#message(bytes.subarray(5, end))
    }
  }

  #lengthOfFirst(): number {
    if (this.#pieces[0]!.length < 5) this.#pieces = [this.#together()]
    return this.#pieces[0]!.readUInt32BE(1)
  }

  #together(): Buffer {
    return this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
  }
}

/** The status in the head of an answer or in what follows its body; undefined where there is none. */
export function statusOf(fields: Fields): RpcError | 'ok' | undefined {
  const status = fields.get('grpc-status')
  if (status === '0') return 'ok'
  if (status !== undefined) return new RpcError(Number(status), decoded(fields.get('grpc-message') ?? 'no message'))
  const http = fields.get(':status')
  return http === undefined || http === '200' ? undefined : new RpcError(UNAVAILABLE, `HTTP status ${http}`)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // It is percent-encoded by the standard; one that is not is shown as it came.
    return text
  }
}
