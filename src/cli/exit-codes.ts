/** How `holdfast` ends, after the numbers of sysexits.h and the habits of `flock`, `env` and `timeout`. */
export const EXIT = {
  ok: 0,
  /** `evict` found nothing to evict. */
  nothing: 1,
  usage: 64,
  unavailable: 69,
  internal: 70,
  /** The lock was not to be had in time. */
  busy: 75,
  /** The lock was lost, and the command was stopped. */
  lost: 76,
  notExecutable: 126,
  notFound: 127,
} as const

/** Added to the number of a signal, as shells do. */
export const SIGNAL_BASE = 128
