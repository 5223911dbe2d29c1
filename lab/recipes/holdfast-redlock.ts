import { holdfastOn } from '../clients/holdfast.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = holdfastOn(
  'redlock',
  'five Redis servers',
  'A majority of independent Redis servers, fenced; a server that restarted does not vote until it is safe.',
  (urls, ttlMs) => {
    const hosts = urls.map((url) => new URL(url).host)
    return `redlock://${hosts.join(',')}?maxTtl=${ttlMs}ms`
  },
)

export default recipe
