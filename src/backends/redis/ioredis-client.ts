import type { Counted } from './silence.js'

/** What is used of an ioredis `Redis`. Written out here, so that the package's types do not need the library. */
export interface IoredisClient {
  readonly status: string
  readonly options: {
    readonly keyPrefix?: string | undefined
    readonly host?: string | undefined
    readonly port?: number | undefined
  }
  call(command: string, args: string[]): Promise<unknown>
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  duplicate(override?: object): IoredisClient
  connect(): Promise<void>
  subscribe(channel: string): Promise<unknown>
  disconnect(reconnect?: boolean): void
}

/** What is used of an ioredis `Cluster`. */
export interface IoredisCluster {
  readonly isCluster: boolean
  readonly status: string
  readonly options: { readonly keyPrefix?: string | undefined }
  call(command: string, args: string[]): Promise<unknown>
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  nodes(role?: 'all' | 'master' | 'slave'): IoredisClient[]
  /** By slot: 'host:port' of its master, then of its replicas. */
  readonly slots: readonly (readonly string[] | undefined)[]
  refreshSlotsCache(): void
  duplicate(): IoredisCluster
  connect(): Promise<void>
  disconnect(): void
}

/** What ioredis keeps in a client, beside what it documents. */
export interface Handles {
  readonly stream?: Counted & { unref?(): void }
  readonly reconnectTimeout?: { unref?(): void } | null
}

/** Core decides what is asked again, and knows what may be sent twice. */
export const NEVER_AGAIN = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
} as const

export function isCluster(client: IoredisClient | IoredisCluster): client is IoredisCluster {
  return 'isCluster' in client && client.isCluster
}
