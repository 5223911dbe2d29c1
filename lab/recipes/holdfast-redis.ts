import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'redis',
  'Redis',
  'One Redis server; tickets in line, fenced, renewed, and given up in time when the server does not answer.',
)

export default recipe
