import { readFileSync } from 'node:fs'
import { ConfigError } from '../../core/errors.js'

/** The version that the SQL files beside this one make, and the least that this code can work with. */
export const SCHEMA_VERSION = 1

export const DEFAULT_SCHEMA = 'holdfast'

const FILES = ['tables', 'lines', 'renew', 'join', 'leave', 'calls', 'one', 'fence']

/** Checks the name of the schema: it is written into SQL text, so it is of plain letters only. */
export function checkSchema(schema: string): string {
  if (/^[a-z_][a-z0-9_]{0,39}$/.test(schema)) return schema
  throw new ConfigError(
    `schema: '${schema}' is not a plain name. Write up to 40 of a-z, 0-9 and _, such as 'holdfast' or 'app_locks'.`,
  )
}

/** The whole schema as SQL that may run again and again: made on first use, or printed for whoever may create. */
export function schemaSql(schema: string = DEFAULT_SCHEMA): string {
  const name = checkSchema(schema)
  const parts = FILES.map((file) => readFileSync(new URL(`./${file}.sql`, import.meta.url), 'utf8'))
  return [BEGIN, ...parts, COMMIT].join('\n').replaceAll('@schema', name)
}

const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED;

-- However short the role's own limits are: this is done once, and others wait for it.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;

-- One process at a time: CREATE … IF NOT EXISTS alone fails when two run at once.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast schema @schema', 0));

-- CREATE SCHEMA IF NOT EXISTS asks for the right to create even when the schema is there.
DO $$
BEGIN
  IF to_regnamespace('@schema') IS NULL THEN
    CREATE SCHEMA "@schema";
  END IF;
END
$$;
`

const COMMIT = `
-- An application user who does not own the schema needs this much (put his name for APP):
--   GRANT USAGE ON SCHEMA "@schema" TO APP;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "@schema" TO APP;
--   GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA "@schema" TO APP;
COMMIT;
`
