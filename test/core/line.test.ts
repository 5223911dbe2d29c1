import fc from 'fast-check'
import { expect, test } from 'vitest'
import { byLine, grantedCount, KINDS, type LineKey } from '../../src/core/line.js'

const ticket = fc.record({ weight: fc.integer({ min: 1, max: 5 }), capacity: fc.integer({ min: 5, max: 8 }) })

test('the granted tickets are a prefix whose weights fit each one’s own capacity, and the next does not', () => {
  fc.assert(
    fc.property(fc.array(ticket), (line) => {
      const granted = grantedCount(line)
      let sum = 0
      for (const one of line.slice(0, granted)) {
        sum += one.weight
        expect(sum).toBeLessThanOrEqual(one.capacity)
      }
      const next = line[granted]
      if (next !== undefined) expect(sum + next.weight).toBeGreaterThan(next.capacity)
    }),
  )
})

test('once granted, a ticket stays granted, whoever leaves and whoever comes', () => {
  fc.assert(
    fc.property(fc.array(ticket, { minLength: 1 }), fc.nat(), ticket, (line, leaver, newcomer) => {
      const granted = new Set(line.slice(0, grantedCount(line)))
      const after = line.filter((_, i) => i !== leaver % line.length)
      after.push(newcomer)
      const stillGranted = new Set(after.slice(0, grantedCount(after)))
      for (const one of after) if (granted.has(one)) expect(stillGranted.has(one)).toBe(true)
    }),
  )
})

test('lines sort by kind and name, the same for everyone', () => {
  const line = fc.record<LineKey>({ kind: fc.constantFrom(...KINDS), name: fc.string() })
  fc.assert(
    fc.property(line, line, line, (a, b, c) => {
      expect(Math.sign(byLine(a, b))).toBe(-Math.sign(byLine(b, a)) + 0)
      if (byLine(a, b) <= 0 && byLine(b, c) <= 0) expect(byLine(a, c)).toBeLessThanOrEqual(0)
    }),
  )
})
