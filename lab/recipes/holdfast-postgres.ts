import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'postgres',
  'PostgreSQL',
  'Tables in a database; tickets in line, fenced, woken by NOTIFY.',
)

export default recipe
