import type { Client } from 'pg'
import { BackendError } from '../../core/errors.js'
import type { Dial } from './connections.js'
import { destroy } from './destroy.js'
import { failure, isMissing } from './failure.js'
import { SCHEMA_VERSION, schemaSql } from './schema.js'
import { watched } from './watchdog.js'

/** `hashtextextended` and procedures came with 11. */
const OLDEST = 11

/** The schema takes a moment to make, but may wait for whoever makes it just now. */
const MIGRATION_MS = 60_000

/**
 * Checks that the server is one we can work with, and makes the schema when it is not there.
 * True: connections are sessions of the server itself, so statements may be prepared by name.
 */
export async function ready(
  dial: Dial,
  { schema, migrate }: { readonly schema: string; readonly migrate: boolean },
): Promise<boolean> {
  const client = await connectAwake(dial)
  try {
    await checkServer(client)
    if ((await versionOf(client, schema)) < SCHEMA_VERSION) {
      if (!migrate) throw noSchema(schema)
      await watched(client, client.query(schemaSql(schema)), MIGRATION_MS)
    }
    const { rows } = await watched(client, client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid'))
    return (client as unknown as { processID?: number | null }).processID === rows[0]?.pid
  } catch (cause) {
    throw failure('opening', cause)
  } finally {
    void client.end().catch(() => destroy(client))
  }
}

/** Makes or renews the schema. */
export async function runMigration(dial: Dial, schema: string): Promise<void> {
  const client = await connectAwake(dial)
  try {
    await checkServer(client)
    await watched(client, client.query(schemaSql(schema)), MIGRATION_MS)
  } catch (cause) {
    throw failure('making the schema', cause)
  } finally {
    void client.end().catch(() => destroy(client))
  }
}

/** Unlike the connections that stay, this one keeps the process alive: somebody waits for it to be done. */
async function connectAwake(dial: Dial): Promise<Client> {
  try {
    const client = await dial()
    client.on('error', () => undefined)
    return client
  } catch (cause) {
    throw failure('connecting', cause)
  }
}

async function checkServer(client: Client): Promise<void> {
  const { rows } = await watched(
    client,
    client.query<{ version: string; encoding: string }>(
      "SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding",
    ),
  )
  const version = Math.floor(Number(rows[0]?.version) / 10_000)
  if (version < OLDEST) {
    throw new BackendError(`PostgreSQL: the server is version ${version}; Holdfast needs ${OLDEST} or later.`, {
      retryable: false,
    })
  }
  const encoding = rows[0]?.encoding
  if (encoding !== 'UTF8') {
    throw new BackendError(
      `PostgreSQL: the database's encoding is ${encoding}, which cannot keep every name. Use one made with ENCODING 'UTF8'.`,
      { retryable: false },
    )
  }
}

/** The version of the schema that is there; 0 when there is none. */
async function versionOf(client: Client, schema: string): Promise<number> {
  try {
    const { rows } = await watched(client, client.query<{ version: number }>(`SELECT version FROM "${schema}".version`))
    return rows[0]?.version ?? 0
  } catch (cause) {
    if (isMissing(cause)) return 0
    throw cause
  }
}

function noSchema(schema: string): BackendError {
  return new BackendError(
    `PostgreSQL: the schema "${schema}" is not there and may not be made. Run 'holdfast migrate', or let an owner run what 'holdfast migrate --print' prints.`,
    { retryable: false },
  )
}
