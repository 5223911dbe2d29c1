/** Placeholder until the embedded store lands in this tree. */
export function defaultUrl(): string {
  return 'memory:'
}
