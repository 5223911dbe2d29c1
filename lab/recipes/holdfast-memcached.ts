import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'memcached',
  'memcached',
  'One compare-and-swapped line value; it says of itself that it is for efficiency only, and has no fence.',
)

export default recipe
