/** Somebody on a roster, who can be on one at a time. The fields belong to the roster. */
export interface Member<M> {
  listed: boolean
  previous: M | undefined
  next: M | undefined
}

/**
 * Who is there at the moment: a list linked through its members.
 *
 * Not a Set: when a Set makes itself a new table, the old table points to the new one. Once an old table has grown old,
 * the collector takes all that it leads to for alive, and everyone who passes through, however briefly, stays until the
 * next full collection. With 64 acquires in flight that was a quarter of this process's time. A member that has left
 * points nowhere.
 */
export class Roster<M extends Member<M>> implements Iterable<M> {
  #first: M | undefined

  add(member: M): void {
    if (member.listed) return
    const next = this.#first
    member.listed = true
    member.next = next
    if (next !== undefined) next.previous = member
    this.#first = member
  }

  delete(member: M): void {
    if (!member.listed) return
    const { previous, next } = member
    if (previous === undefined) this.#first = next
    else previous.next = next
    if (next !== undefined) next.previous = previous
    member.listed = false
    member.previous = undefined
    member.next = undefined
  }

  /** A copy is walked: members may come and go meanwhile. */
  *[Symbol.iterator](): Iterator<M> {
    const members: M[] = []
    for (let member = this.#first; member !== undefined; member = member.next) members.push(member)
    yield* members
  }

  find(matches: (member: M) => boolean): M | undefined {
    for (let member = this.#first; member !== undefined; member = member.next) if (matches(member)) return member
    return undefined
  }
}
