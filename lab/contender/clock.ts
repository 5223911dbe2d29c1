/** Sets this process's wall clock off by so much, for the recipe and for every library it uses. The monotonic clock stays. */
export function skewClock(skewMs: number): void {
  const now = Date.now.bind(Date)
  if (skewMs === 0) return
  globalThis.Date = new Proxy(Date, {
    construct: (target, args: [], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now() + skewMs] : args, newTarget) as object,
    get: (target, key, receiver): unknown =>
      key === 'now' ? () => now() + skewMs : (Reflect.get(target, key, receiver) as unknown),
  })
}
