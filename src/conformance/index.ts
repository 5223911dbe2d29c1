export const cases: readonly never[] = []
