import type { Client, Connection, Submittable } from 'pg'

/** A statement that is prepared once for each session; the name says in an error what was being done. */
export interface Prepared {
  readonly name: string
  readonly text: string
}

export type Value = string | number | boolean | null

/** What a statement of one column answered. */
export type Column = (string | null)[]

/** What of pg's connection is used: the messages of the extended protocol. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void }
  readonly parsedStatements: Record<string, string | undefined>
  parse(query: { readonly name: string; readonly text: string }): void
  bind(config: { readonly statement: string; readonly values: readonly (string | null)[] }): void
  execute(config: object): void
  sync(): void
}

/**
 * Runs a statement whose rows are one column of text, prepared by its name where the connection is known to be one
 * session. pg's own way to do so asks for a description of that column at every run and makes an object of each row:
 * half as much again of this process's time for a call.
 */
export function runColumn(
  client: Client,
  { name, text }: Prepared,
  values: readonly Value[],
  named: boolean,
): Promise<Column> {
  return new Promise((resolve, reject) => {
    if (named && speaksWire(client)) {
      client.query(
        new Run(name, text, values.map(inText), (error, column) => (error ? reject(error) : resolve(column))),
      )
      return
    }
    const query = { text, values: values as Value[], rowMode: 'array' as const, ...(named ? { name } : undefined) }
    client.query<Column>(query).then(({ rows }) => resolve(rows.map(([first = null]) => first)), reject)
  })
}

/** The client of `pg-native` and one that pipelines take no queries but pg's own. */
function speaksWire(client: Client): boolean {
  const { connection, pipeline } = client as unknown as { connection?: Partial<Wire>; pipeline?: boolean }
  return connection?.parsedStatements !== undefined && pipeline !== true
}

function inText(value: Value): string | null {
  return value === null || typeof value === 'string' ? value : String(value)
}

/** One run of a prepared statement, in the form that pg's queue takes. */
class Run implements Submittable {
  readonly name: string
  readonly text: string
  readonly #values: readonly (string | null)[]
  readonly #column: Column = []
  /** pg puts its own in front of it when it was told to limit the time of a query. */
  callback: (error: Error | null, column: Column) => void

  constructor(
    name: string,
    text: string,
    values: readonly (string | null)[],
    callback: (error: Error | null, column: Column) => void,
  ) {
    this.name = name
    this.text = text
    this.#values = values
    this.callback = callback
  }

  submit(connection: Connection): null {
    const wire = connection as unknown as Wire
    wire.stream.cork()
    try {
      if (wire.parsedStatements[this.name] === undefined) wire.parse({ name: this.name, text: this.text })
      wire.bind({ statement: this.name, values: this.#values })
      wire.execute({})
      wire.sync()
    } finally {
      wire.stream.uncork()
    }
    return null
  }

  handleDataRow({ fields }: { readonly fields: Column }): void {
    this.#column.push(fields[0] ?? null)
  }

  handleReadyForQuery(): void {
    this.callback(null, this.#column)
  }

  handleError(error: Error): void {
    this.callback(error, [])
  }

  handleCommandComplete(): void {
    // The server is ready for the next only after its commit: that is the answer.
  }
}
