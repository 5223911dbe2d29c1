import type { Holder } from './backend.js'

/** A client's tickets mostly tell of the same holder, each in an object of its own: its text is made once for them all. */
export function rememberingLast(textOf: (holder: Holder) => string): (holder: Holder) => string {
  let last: Holder | undefined
  let text = ''
  return (holder) => {
    if (last === undefined || !isSame(last, holder)) text = textOf(holder)
    last = holder
    return text
  }
}

function isSame(a: Holder, b: Holder): boolean {
  return (
    a === b ||
    (a.owner === b.owner &&
      a.client === b.client &&
      a.host === b.host &&
      a.pid === b.pid &&
      a.note === b.note &&
      a.also === b.also)
  )
}
