import { allRecipes, allSituations } from './catalogue.js'
import { runMatrix } from './run.js'
const names = process.argv.slice(2)
const recipes = (await allRecipes()).filter((r) => names.length === 0 || names.includes(r.name))
const cells = await runMatrix({ recipes, situations: await allSituations(), seed: 1, jobs: 2, onCell: (c) => console.log(c.recipe.name, c.situation.name, c.verdict.word, Math.round(c.evidence.ms), c.verdict.why) })
console.log(cells.length)
