import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'mysql',
  'MySQL',
  'Tables in a database; tickets in line, fenced, one batched look a process.',
)

export default recipe
