import { ConfigError, LockLostError } from '../../core/errors.js'
import { checkSchema, DEFAULT_SCHEMA } from './schema.js'

/** What `fence_guard` raises; the transaction is aborted by it, whatever the caller does with the error. */
const TOO_OLD = 'HF001'

/** Anything that runs a statement in the application's transaction: a `pg` Client or PoolClient. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<unknown>
}

/**
 * Makes the writes of a transaction safe against a holder that was paused: call it first in the application's own
 * transaction. It throws `LockLostError`, and the transaction can only be rolled back, when a newer fence has been
 * seen for this resource; otherwise nobody with an older one gets past until the transaction ends.
 */
export async function fenceGuard(
  client: Queryable,
  resource: string,
  fence: bigint,
  options: { readonly schema?: string } = {},
): Promise<void> {
  const schema = checkSchema(options.schema ?? DEFAULT_SCHEMA)
  const bytes = Buffer.byteLength(resource)
  if (bytes === 0 || bytes > 1024) throw new ConfigError('A resource is named by 1 to 1024 bytes.')
  try {
    await client.query(`SELECT "${schema}".fence_guard($1, $2)`, [resource, fence.toString()])
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== TOO_OLD) throw cause
    throw new LockLostError(
      `Fence ${fence} of '${resource}' is too old: a newer one has written. Roll the transaction back.`,
      { cause },
    )
  }
}
