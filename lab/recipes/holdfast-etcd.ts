import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'etcd',
  'etcd',
  'Keys under leases, fenced by their create revision; the deadline is kept on the holder’s own clock.',
)

export default recipe
