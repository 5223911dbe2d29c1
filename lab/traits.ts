/**
 * What a recipe is made of, read from the recipe and from what is written about it. What is to be expected of it
 * (`expectations.ts`) follows from these alone, so it is known before anything is played.
 */
export interface Traits {
  /**
   * How it is taken. 'in one step' · 'bounded later': one step takes it and a second gives it an end · 'looks first': a
   * step before the one that takes it, which leaves nothing behind that blocks.
   */
  readonly taken: 'in one step' | 'bounded later' | 'looks first'
  /**
   * What ends the hold of somebody who is gone: a ttl at the store · the wall clocks of clients · a cleaning job with a
   * ttl · a session that heartbeats keep · the connection · nothing.
   */
  readonly ends: 'ttl' | 'wall clocks' | 'cleaning job' | 'session' | 'connection' | 'nothing'
  /** A live holder's hold does not run out: it is renewed, or lasts as long as its session or connection, or for ever. */
  readonly lasts: boolean
  /**
   * How a holder learns that its hold is over, when the store cannot tell it. 'own clock': from a deadline that it keeps
   * itself, before the store's · 'late': from its client library, after the store's · 'never'.
   */
  readonly learns: 'own clock' | 'late' | 'never'
  /** What is let go: 'whatever is there' · 'what it saw': looked at in one step and deleted in another · 'its own', in one step. */
  readonly frees: 'whatever is there' | 'what it saw' | 'its own'
  /** Who asked, and whose answer was lost, is known again when it asks again, and the client does that by itself. */
  readonly asksAgain: boolean
  /** What is left of a hold when the server was killed: nothing · all · all but the votes of one server · it ends with the connection. */
  readonly restart: 'forgets' | 'remembers' | 'one vote is forgotten' | 'that vote does not count' | 'ends'
  /** A token that grows with every hold, also over restarts and failovers. */
  readonly token: boolean
  /** How it waits: 'in line' · 'by race': everybody tries when it may be free · 'ten times': and then gives up. */
  readonly waits?: 'in line' | 'by race' | 'ten times'
  /** What happens when the holder asks again: it is refused · let in, and counted · let in, and not counted. */
  readonly again: 'refused' | 'counted' | 'not counted'
}

const REDIS: Traits = {
  taken: 'in one step',
  ends: 'ttl',
  lasts: false,
  learns: 'never',
  frees: 'whatever is there',
  asksAgain: false,
  restart: 'forgets',
  token: false,
  waits: 'by race',
  again: 'refused',
}

/** A row of a table: nothing waits for it, a restart does not lose it. */
const { waits: _, ...UNWAITED } = REDIS
const ROW: Traits = { ...UNWAITED, ends: 'nothing', lasts: true, restart: 'remembers' }

const SESSION: Traits = {
  ...REDIS,
  taken: 'looks first',
  ends: 'session',
  lasts: true,
  frees: 'its own',
  restart: 'remembers',
  waits: 'in line',
}

const HOLDFAST: Traits = {
  taken: 'in one step',
  ends: 'ttl',
  lasts: true,
  learns: 'own clock',
  frees: 'its own',
  asksAgain: true,
  restart: 'remembers',
  token: true,
  waits: 'in line',
  again: 'counted',
}

/** By the recipe's name. */
export const TRAITS: Readonly<Record<string, Traits>> = {
  'redis-setnx-then-expire': { ...REDIS, taken: 'bounded later' },
  'redis-setnx-expire-lua': REDIS,
  'redis-set-nx-px-blind-del': REDIS,
  'redis-set-nx-px-get-then-del': { ...REDIS, frees: 'what it saw' },
  'redis-set-nx-px-lua-del': { ...REDIS, frees: 'its own' },
  // It looks at its own clock and then deletes: two steps, and the key is not even looked at.
  'redis-getset-timestamp': { ...REDIS, ends: 'wall clocks' },
  'redis-spin': { ...REDIS, frees: 'its own', waits: 'ten times' },
  'redis-batch-pipeline': { ...REDIS, taken: 'bounded later' },
  'redlock-five-steps': { ...REDIS, learns: 'own clock', frees: 'its own', restart: 'one vote is forgotten' },
  'memcached-add-delete': { ...UNWAITED, restart: 'forgets' },
  'db-unique-no-expiry': ROW,
  'db-unique-expiry': { ...ROW, taken: 'looks first', ends: 'wall clocks', lasts: false },
  'db-unique-cleaning-job': { ...ROW, ends: 'cleaning job', lasts: false },
  'db-unique-owner': { ...ROW, taken: 'looks first', frees: 'its own', again: 'not counted' },
  'db-select-for-update': {
    ...ROW,
    taken: 'looks first',
    ends: 'connection',
    frees: 'its own',
    restart: 'ends',
    waits: 'in line',
  },
  // The node's path is the lock's name, so a delete by path deletes whose node it is.
  'zookeeper-ephemeral-all-watch': {
    ...SESSION,
    taken: 'in one step',
    frees: 'whatever is there',
    waits: 'by race',
  },
  'zookeeper-sequential-watch-parent': SESSION,
  'zookeeper-sequential-predecessor': SESSION,
  // One key a session: whoever asks twice finds its own. etcd3 sends a call again whose connection broke.
  'etcd-lease-txn': { ...SESSION, learns: 'late', asksAgain: true, again: 'not counted' },
  'holdfast-redis': { ...HOLDFAST, restart: 'forgets' },
  'holdfast-redlock': { ...HOLDFAST, restart: 'that vote does not count', waits: 'by race' },
  'holdfast-memcached': { ...HOLDFAST, restart: 'forgets', token: false },
  'holdfast-mysql': HOLDFAST,
  'holdfast-postgres': HOLDFAST,
  'holdfast-zookeeper': { ...HOLDFAST, ends: 'session' },
  'holdfast-etcd': { ...HOLDFAST, ends: 'session' },
  'holdfast-sqlite': HOLDFAST,
}
