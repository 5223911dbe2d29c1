/** Words of a command, and how they are spelt in the protocol. */
export interface Words {
  readonly list: readonly string[]
  readonly text: string
}

export function words(list: readonly string[]): Words {
  return { list, text: list.map(spelt).join('') }
}

/** For words that are sent again and again. */
export function keptWords(list: readonly string[]): Words {
  // By way of bytes: a text that was put together piece by piece is otherwise gathered anew each time it is sent.
  return { list, text: Buffer.from(words(list).text).toString() }
}

/** A whole command as it goes over the wire: what is always the same stands around the one word that is not. */
export function packet(before: Words, word: string, after: Words): string {
  return `*${before.list.length + 1 + after.list.length}\r\n${before.text}${spelt(word)}${after.text}`
}

function spelt(word: string): string {
  return `$${Buffer.byteLength(word)}\r\n${word}\r\n`
}
