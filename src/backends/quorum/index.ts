import type { Backend, FloorBackend } from '../../core/backend.js'
import type { QuorumOptions } from './options.js'
import { QuorumBackend } from './quorum-backend.js'

export type { QuorumOptions }

/** A lock kept by a majority of independent servers (Redlock), with a fence that all majorities agree on. */
export function quorum(backends: readonly FloorBackend[], options: QuorumOptions = {}): Backend {
  return new QuorumBackend(backends, options)
}
