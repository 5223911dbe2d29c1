import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Reader, Writer } from '../../src/backends/etcd/wire.js'

/** Protobuf's own words: the lowest seven bits first, the eighth bit where more follow, negatives as 64 bits. */
function varint(value: bigint): number[] {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  return [...bytes, Number(rest)]
}

// Where the bytes become one more, and where a number stops being exact.
const edges = [1, 7, 14, 48, 49, 50, 53, 56, 63].flatMap((bits) => [2n ** BigInt(bits) - 1n, 2n ** BigInt(bits)])
const int64 = fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.constantFrom(...edges.slice(0, -1)))

describe('protobuf', () => {
  test('every int64 is written as the standard says, and read as it was', () => {
    fc.assert(
      fc.property(int64, (value) => {
        const bytes = new Writer().int(1, value).finish()
        expect([...bytes]).toEqual(value === 0n ? [] : [1 << 3, ...varint(value)])
        const reader = new Reader(Buffer.from([1 << 3, ...varint(value)]))
        expect(reader.next()).toBe(1)
        expect(reader.big()).toBe(value)
        expect(reader.next()).toBe(0)
      }),
    )
  })

  test('what nobody asked for is passed over, whatever it holds', () => {
    fc.assert(
      fc.property(int64, (value) => {
        const reader = new Reader(Buffer.from([1 << 3, ...varint(value), 2 << 3, 5]))
        reader.next()
        reader.skip()
        expect(reader.next()).toBe(2)
        expect(reader.number()).toBe(5)
      }),
    )
  })
})
