/** The names of our tables, as they go into SQL. */
export interface Tables {
  readonly ticket: string
  readonly stripe: string
  readonly session: string
  readonly draw: string
  readonly floor: string
  readonly run: string
}

export function tablesOf(prefix: string): Tables {
  return {
    ticket: `${prefix}ticket`,
    stripe: `${prefix}stripe`,
    session: `${prefix}session`,
    draw: `${prefix}draw`,
    floor: `${prefix}floor`,
    run: `${prefix}run`,
  }
}
