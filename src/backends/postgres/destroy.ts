import type { Client } from 'pg'

/** Ends a connection at once, whatever it is doing. */
export function destroy(client: Client): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } }
  connection?.stream?.destroy()
}
