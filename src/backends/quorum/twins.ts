import type { Node } from './node.js'

/** The one that counts, when it is another: of several ways to one server the first does, for it has one voice. */
export function twinOf(node: Node, nodes: readonly Node[]): Node | undefined {
  const [first, ...twins] = nodes.filter(({ run }) => run === node.run)
  if (first !== node) return first
  for (const twin of twins) twin.isTwinOf(node)
  return undefined
}

export function twinText({ label }: Node): string {
  return `it is the same server as ${label}: give each one once`
}
