import type { Word } from '../verdict.js'

/** How each verdict is shown: by word, by sign and by colour, so that no one of them is needed alone. */
export const SIGNS: Readonly<Record<Word, string>> = { safe: '✓', unsafe: '✗', hangs: '∞', 'not offered': '·' }

/** The name of the class and of the colour variables. */
export const CLASSES: Readonly<Record<Word, string>> = {
  safe: 'safe',
  unsafe: 'unsafe',
  hangs: 'hangs',
  'not offered': 'none',
}

export const MEANINGS: Readonly<Record<Word, string>> = {
  safe: 'never two holders (or the late one was refused by its token), and everybody was served',
  unsafe: 'two held the lock at once, or an update was lost',
  hangs: 'somebody alive was not served although nobody was in the way',
  'not offered': 'the recipe has no such thing, or the situation has no meaning for its store',
}
