import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Member, Roster } from '../../src/core/roster.js'

interface Named extends Member<Named> {
  readonly name: number
}

test('a roster has whoever was added and not deleted, and who has left points nowhere', () => {
  const steps = fc.array(fc.record({ name: fc.integer({ min: 0, max: 7 }), adds: fc.boolean() }))
  fc.assert(
    fc.property(steps, (list) => {
      const members = Array.from({ length: 8 }, (_, name): Named => {
        return { name, listed: false, previous: undefined, next: undefined }
      })
      const roster = new Roster<Named>()
      const model = new Set<number>()
      for (const { name, adds } of list) {
        if (adds) {
          roster.add(members[name]!)
          model.add(name)
        } else {
          roster.delete(members[name]!)
          model.delete(name)
        }
      }
      expect(new Set([...roster].map(({ name }) => name))).toEqual(model)
      for (const member of members) {
        expect(roster.find((one) => one === member)).toBe(model.has(member.name) ? member : undefined)
        if (!model.has(member.name)) expect([member.previous, member.next]).toEqual([undefined, undefined])
      }
    }),
  )
})

test('members may leave and come while the roster is walked', () => {
  const [a, b, c] = [1, 2, 3].map((name): Named => ({ name, listed: false, previous: undefined, next: undefined }))
  const roster = new Roster<Named>()
  for (const member of [a!, b!, c!]) roster.add(member)
  const seen: number[] = []
  for (const member of roster) {
    seen.push(member.name)
    roster.delete(member)
    roster.delete(b!)
  }
  expect(seen).toEqual([3, 2, 1])
  expect([...roster]).toEqual([])
})
