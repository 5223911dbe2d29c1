/** What the demo and its workers say to each other. */
export type ToWorker = 'go'

export type FromWorker = { readonly type: 'ready' } | Bump

/** One bump of the counter: between reading it and having written it. */
export interface Bump {
  readonly type: 'bump'
  readonly from: number
  readonly to: number
  /** Under the lock: its token, as decimal text. */
  readonly fence?: string
}

/** Milliseconds on the clock that all processes of this machine share. */
export function bootMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
