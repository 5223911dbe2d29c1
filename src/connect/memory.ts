import { memory } from '../backends/memory/index.js'
import type { Backend } from '../core/backend.js'
import { checkQuery, type StoreUrl } from './url.js'

/** `memory:` is one store a process; `memory:name` is another, by that name. */
export function open(url: StoreUrl): Backend {
  checkQuery(url, [])
  return memory({ store: url.path })
}
