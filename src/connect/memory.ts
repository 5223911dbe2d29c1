import { memory } from '../backends/memory/index.js'
import type { Backend } from '../core/backend.js'

/** `memory:` is one store a process; `memory:name` is another, by that name. */
export function open(url: URL): Backend {
  return memory({ store: url.pathname })
}
