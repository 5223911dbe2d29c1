/** Text as it may stand in HTML and SVG. */
export function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** A number with at most one digit after the point: pictures need no more. */
export function fix(value: number): string {
  return String(Math.round(value * 10) / 10)
}

export function cellId(recipe: string, situation: string): string {
  return `${recipe}--${situation}`
}
