/** Makes what others wrote (names, owners, notes) safe and readable on a terminal. */
export function visible(text: string): string {
  // Control characters could rewrite the screen; format characters could turn its direction or hide.
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => {
    const code = char.codePointAt(0)!
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
  })
}

/** A text as one word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${visible(text).replaceAll("'", String.raw`'\''`)}'`
}

/** A time span for people: '850ms', '12s', '3m05s', '2h10m', '4d06h'. */
export function span(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms < 0) return '0s'
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds}s`
  const two = (n: number): string => String(n).padStart(2, '0')
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h${two(Math.floor(seconds / 60) % 60)}m`
  return `${Math.floor(seconds / 86_400)}d${two(Math.floor(seconds / 3_600) % 24)}h`
}

/** How many columns a text takes: wide characters (CJK, most emoji) take two, combining ones none. */
function columns(text: string): number {
  let width = 0
  for (const char of text) {
    if (/\p{Mn}|\p{Me}/u.test(char)) continue
    width +=
      /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u.test(
        char,
      )
        ? 2
        : 1
  }
  return width
}

/** Cuts a text to so many columns, with an ellipsis. */
export function cut(text: string, most: number): string {
  if (columns(text) <= most) return text
  let out = ''
  let width = 0
  for (const char of text) {
    width += columns(char)
    if (width > most - 1) break
    out += char
  }
  return `${out}…`
}

/** Colours for a terminal; every function is the identity where colours are not wanted. */
export interface Palette {
  readonly bold: (text: string) => string
  readonly dim: (text: string) => string
  readonly green: (text: string) => string
  readonly yellow: (text: string) => string
  readonly red: (text: string) => string
}

/** Colours only on a terminal, and only where nobody asked for none (https://no-color.org). */
export function palette(stream: { readonly isTTY?: boolean }): Palette {
  const on = stream.isTTY === true && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb'
  const paint = (code: number, end: number) => (text: string) => (on ? `\u001B[${code}m${text}\u001B[${end}m` : text)
  return { bold: paint(1, 22), dim: paint(2, 22), green: paint(32, 39), yellow: paint(33, 39), red: paint(31, 39) }
}

/** One cell of a table: what is shown, and how it is painted once it has its width. */
export interface Cell {
  readonly text: string
  readonly paint?: (text: string) => string
  readonly right?: boolean
}

/** Sets rows in columns, two spaces apart. The last column is not padded; no line is wider than `width`. */
export function table(rows: readonly (readonly Cell[])[], width: number): string {
  const widths: number[] = []
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, columns(cell.text))))
  // Only names, owners and notes are long: the widest column gives way until the row fits.
  const gaps = 2 * Math.max(0, widths.length - 1)
  while (widths.reduce((sum, w) => sum + w, gaps) > width) {
    const widest = widths.indexOf(Math.max(...widths))
    if (widths[widest]! <= 8) break
    widths[widest]! -= 1
  }
  return rows
    .map((row) =>
      row
        .map((cell, i) => {
          const text = cut(cell.text, widths[i]!)
          const padding = ' '.repeat(widths[i]! - columns(text))
          const padded = cell.right ? padding + text : i === row.length - 1 ? text : text + padding
          return cell.paint === undefined ? padded : cell.paint(padded)
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
