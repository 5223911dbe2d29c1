import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'sqlite',
  'SQLite',
  'A file on one machine; tickets in line, fenced, expiry on the clock that all its processes share.',
)

export default recipe
