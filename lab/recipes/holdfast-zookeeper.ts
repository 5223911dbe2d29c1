import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'zookeeper',
  'ZooKeeper',
  'Sequential ephemeral nodes, fenced by the transaction that made them; the session bounds what the holder believes.',
  ([url], ttlMs) => {
    return `${url}?session=${ttlMs}ms&tick=100ms`
  },
)

export default recipe
