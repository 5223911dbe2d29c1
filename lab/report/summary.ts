import { isHoldfast } from '../catalogue.js'
import type { Recipe } from '../recipe.js'
import type { Cell } from '../run.js'
import type { Situation } from '../situation.js'
import type { Word } from '../verdict.js'
import { escape } from './text.js'
import { CLASSES, SIGNS } from './words.js'

/** Of the widest fonts that a reader may have. */
const LETTER = 7.9
const COLUMN = 50
const ROW = 25
const HEAD = 176
const GAP = 18

const STYLE = `text{font-family:system-ui,'Segoe UI',Inter,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;fill:#1d2530;font-size:14px}
.page{fill:#fff}.faint{fill:#5c6875}.sign{font-weight:700;text-anchor:middle}
.safe{fill:#dcf1e9}.s-safe{fill:#00664b}.unsafe{fill:#fbe0dd}.s-unsafe{fill:#a8201a}.hangs{fill:#fdeecb}.s-hangs{fill:#7a4d00}.none{fill:none}.s-none{fill:#a2abb5}
@media(prefers-color-scheme:dark){text{fill:#e7ebef}.page{fill:#14181d}.faint{fill:#9aa6b2}
.safe{fill:#12352a}.s-safe{fill:#6fd6b4}.unsafe{fill:#451a18}.s-unsafe{fill:#ff9a90}.hangs{fill:#3d2e0c}.s-hangs{fill:#f3c76b}.s-none{fill:#56616c}}`

/** The matrix as one small picture, for a README: light or dark as the reader has it. */
export function summary(cells: readonly Cell[], recipes: readonly Recipe[], situations: readonly Situation[]): string {
  const own = recipes.filter((recipe) => isHoldfast(recipe))
  const others = recipes.filter((recipe) => !isHoldfast(recipe))
  const left = Math.ceil(Math.max(...recipes.map(({ title }) => title.length)) * LETTER) + 30
  const width = left + situations.length * COLUMN + 60
  const parts: string[] = situations.map(({ title }, index) => {
    const x = left + index * COLUMN + COLUMN / 2 - 2
    return `<text transform="translate(${x} ${HEAD - 12}) rotate(-50)">${escape(short(title))}</text>`
  })
  let y = HEAD
  for (const recipe of [...others, ...own]) {
    if (recipe === own[0]) y += GAP
    parts.push(row(cells, recipe, situations, { left, y }))
    y += ROW
  }
  const words = Object.keys(SIGNS) as Word[]
  const legend = words.map((word, index) => {
    const x = left + index * 118
    return `<rect class="${CLASSES[word]}" x="${x}" y="${y + 16}" width="26" height="21" rx="5"/><text class="sign s-${CLASSES[word]}" x="${x + 13}" y="${y + 32}">${SIGNS[word]}</text><text class="faint" x="${x + 33}" y="${y + 32}">${word}</text>`
  })
  const height = y + 56
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="What locks do when something goes wrong: ${recipes.length} recipes in ${situations.length} situations">
<style>${STYLE}</style>
<rect class="page" width="${width}" height="${height}" rx="12"/>
${parts.join('\n')}
${legend.join('\n')}
</svg>
`
}

function row(
  cells: readonly Cell[],
  recipe: Recipe,
  situations: readonly Situation[],
  { left, y }: { left: number; y: number },
): string {
  const weight = isHoldfast(recipe) ? ' font-weight="700"' : ''
  const label = `<text x="${left - 14}" y="${y + 16}" text-anchor="end"${weight}>${escape(recipe.title)}</text>`
  const squares = situations.map((situation, index) => {
    const cell = cells.find((one) => one.recipe.name === recipe.name && one.situation.name === situation.name)
    if (cell === undefined) return ''
    const { word } = cell.verdict
    const x = left + index * COLUMN
    return `<rect class="${CLASSES[word]}" x="${x}" y="${y}" width="${COLUMN - 4}" height="${ROW - 4}" rx="5"/><text class="sign s-${CLASSES[word]}" x="${x + COLUMN / 2 - 2}" y="${y + 16}">${SIGNS[word]}</text>`
  })
  return label + squares.join('')
}

/** Columns are narrow: the first words say which it is. */
function short(title: string): string {
  return SHORT[title] ?? title
}

const SHORT: Readonly<Record<string, string>> = {
  'crash between two steps': 'crash between steps',
  'holder paused past its ttl': 'holder paused',
  'holder slower than its ttl': 'slow holder',
  'master fails over before replication': 'master fails over',
  'client’s clock off by an hour': 'clock off by an hour',
  '50 waiters on one lock': '50 waiters',
}
