/** The names of our tables, as they go into SQL. */
export interface Tables {
  readonly ticket: string
  readonly stripe: string
  readonly session: string
  readonly draw: string
  readonly sequence: string
  readonly floor: string
}

export function tablesOf(prefix: string): Tables {
  return {
    ticket: `${prefix}ticket`,
    stripe: `${prefix}stripe`,
    session: `${prefix}session`,
    draw: `${prefix}draw`,
    sequence: `${prefix}sequence`,
    floor: `${prefix}floor`,
  }
}
