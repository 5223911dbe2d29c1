import { isHoldfast } from '../catalogue.js'
import { expectation, isExpected } from '../expectations.js'
import type { Recipe } from '../recipe.js'
import type { Cell } from '../run.js'
import type { Situation } from '../situation.js'
import type { Word } from '../verdict.js'
import { STYLE } from './style.js'
import { cellId, escape } from './text.js'
import { timeline } from './timeline.js'
import { CLASSES, MEANINGS, SIGNS } from './words.js'

export interface Report {
  readonly cells: readonly Cell[]
  readonly recipes: readonly Recipe[]
  readonly situations: readonly Situation[]
  readonly seed: number
  readonly seconds: number
}

/** The whole report: one HTML file that needs nothing else. */
export function page(report: Report): string {
  const { cells, recipes, situations, seed, seconds } = report
  const order = recipes.flatMap((recipe) => situations.map((situation) => find(cells, recipe, situation)))
  const played = order.filter((cell): cell is Cell => cell !== undefined)
  const sheets = played.map((cell, index) => sheet(cell, played[index - 1], played[index + 1], seed))
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast lab: what locks do when something goes wrong</title>
<style>${STYLE}</style>
</head>
<body>
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-back" width="7" height="7"/><line class="hatch-line" x1="0" y1="0" x2="0" y2="7"/></pattern></defs></svg>
<main id="matrix">
<h1>What locks do when something goes wrong</h1>
<p>Every way to build a distributed lock that people find in posts and books, and Holdfast, on real servers and with real processes, in ${situations.length} situations. Choose a cell to see who held the lock when, where the fault struck and what broke.</p>
<p class="soft">${recipes.length} recipes, ${played.length} cells, seed ${seed}, ${Math.round(seconds)} s.</p>
<ul class="legend">${(Object.keys(SIGNS) as Word[]).map((word) => `<li>${badge(word)} ${MEANINGS[word]}</li>`).join('')}</ul>
${matrix(report)}
<h2>The situations</h2>
<dl>${situations.map(({ title, story }) => `<dt>${escape(title)}</dt><dd>${escape(story)}</dd>`).join('')}</dl>
<h2>The recipes</h2>
<dl>${recipes.map(({ name, title, story }) => `<dt id="${name}">${escape(title)}</dt><dd>${escape(story)}</dd>`).join('')}</dl>
</main>
${sheets.join('\n')}
<script>
addEventListener('keydown', (event) => {
  const sheet = document.querySelector('.sheet:target')
  if (!sheet) return
  const link = sheet.querySelector({ Escape: '.close', ArrowLeft: '.previous', ArrowRight: '.next' }[event.key] ?? '.nothing')
  if (link) { event.preventDefault(); link.click() }
})
// Whoever goes by keys or listens is taken along: into the cell that opened, and back to where it stands in the matrix.
let last = ''
function follow() {
  const sheet = document.querySelector('.sheet:target')
  document.querySelector('main').inert = sheet !== null
  if (sheet) { last = sheet.id; sheet.scrollTop = 0; sheet.querySelector('h3').focus({ preventScroll: true }) }
  else if (last) document.querySelector('td a[href="#' + last + '"]')?.focus()
}
addEventListener('hashchange', follow)
addEventListener('load', follow)
</script>
</body>
</html>
`
}

function find(cells: readonly Cell[], recipe: Recipe, situation: Situation): Cell | undefined {
  return cells.find((cell) => cell.recipe.name === recipe.name && cell.situation.name === situation.name)
}

function badge(word: Word): string {
  return `<span class="badge ${CLASSES[word]}"><span aria-hidden="true">${SIGNS[word]}</span>${word}</span>`
}

function matrix({ cells, recipes, situations }: Report): string {
  const head = situations.map(({ title, story }) => `<th scope="col" title="${escape(story)}">${escape(title)}</th>`)
  const rows: string[] = []
  let group = ''
  for (const recipe of recipes) {
    const next = isHoldfast(recipe) ? 'Holdfast' : GROUPS[recipe.store]
    if (next !== group)
      rows.push(`<tr class="group"><th colspan="${situations.length + 1}" scope="rowgroup">${next}</th></tr>`)
    group = next
    const tds = situations.map((situation) => square(find(cells, recipe, situation)))
    rows.push(
      `<tr><th scope="row"><a href="#${recipe.name}" title="${escape(recipe.story)}">${escape(recipe.title)}</a></th>${tds.join('')}</tr>`,
    )
  }
  return `<div class="matrix"><table><thead><tr><th scope="col">Recipe</th>${head.join('')}</tr></thead><tbody>${rows.join('\n')}</tbody></table></div>`
}

const GROUPS: Readonly<Record<Recipe['store'], string>> = {
  redis: 'Redis',
  redlock: 'Redlock',
  memcached: 'memcached',
  mysql: 'Databases',
  postgres: 'Databases',
  zookeeper: 'ZooKeeper',
  etcd: 'etcd',
  sqlite: 'SQLite',
}

function square(cell: Cell | undefined): string {
  if (cell === undefined) return '<td></td>'
  const { recipe, situation, verdict } = cell
  const odd = isExpected(cell) ? '' : ' odd'
  const tip = escape(`${recipe.title}, ${situation.title}: ${verdict.word}. ${verdict.why}`)
  return `<td><a class="${CLASSES[verdict.word]}${odd}" href="#${cellId(recipe.name, situation.name)}" title="${tip}"><span aria-hidden="true">${SIGNS[verdict.word]}</span> ${verdict.word}</a></td>`
}

function sheet(cell: Cell, previous: Cell | undefined, next: Cell | undefined, seed: number): string {
  const { recipe, situation, evidence, verdict } = cell
  const link = (to: Cell | undefined, name: string, sign: string, label: string): string =>
    to === undefined
      ? ''
      : `<a class="${name}" href="#${cellId(to.recipe.name, to.situation.name)}" aria-label="${label}" title="${label}">${sign}</a>`
  const { word, because } = expectation(recipe, situation.name)
  const expected = word === verdict.word ? because : `Not what was expected: ${word}. ${because}`
  const shown = verdict.shownBy.slice(0, MOST_LINES)
  const history =
    shown.length === 0
      ? ''
      : `<h4>The history, as short as it still shows it</h4><pre>${escape(shown.join('\n'))}</pre>`
  const command = `holdfast lab ${recipe.name} --situation ${situation.name} --seed ${seed}`
  return `<section class="sheet" role="dialog" aria-modal="true" id="${cellId(recipe.name, situation.name)}" aria-label="${escape(`${recipe.title}: ${situation.title}`)}"><a class="away" href="#matrix" tabindex="-1" aria-hidden="true"></a><div>
<nav>${link(previous, 'previous', '←', 'previous cell')}${link(next, 'next', '→', 'next cell')}<a class="close" href="#matrix" aria-label="close" title="close (Esc)">✕</a></nav>
<h3 tabindex="-1">${escape(recipe.title)}<br>${escape(situation.title)}</h3>
<p class="soft">${escape(situation.story)}</p>
<p class="verdict">${badge(verdict.word)}${escape(sentence(verdict.why))}</p>
<p class="soft">${escape(expected)}</p>
${evidence.history.length === 0 ? '' : `<div class="picture" tabindex="0" role="group" aria-label="The picture">${timeline(cell)}</div>\n${KEY}`}
${history}
<h4>Again</h4><pre>${escape(command)}</pre>
</div></section>`
}

const MOST_LINES = 24

const KEY = `<ul class="key"><li>thin line: asks</li><li>bar: holds, by its own view</li><li>○ wrote to the register</li><li>✗ wrote over a newer value</li><li>⊘ refused by its token</li><li>– refused the lock</li><li>? no answer, or an error</li><li>dot at the end of a line: gave up</li><li>red area: two hold at once</li></ul>`

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1)
  return first.endsWith('.') ? first : `${first}.`
}
