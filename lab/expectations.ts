import type { Recipe } from './recipe.js'
import type { Word } from './verdict.js'

/** What the literature (for Holdfast: its own guarantees) lets one expect of a recipe in a situation, and why. */
export interface Expectation {
  readonly word: Word
  readonly because: string
}

/** Where a recipe is not safe; everything else is. */
interface Row {
  readonly unsafe?: readonly string[]
  readonly hangs?: readonly string[]
}

/**
 * Cells where the recipe has no such thing. Only a single Redis has a replica to fail over to; a file has no
 * server, and nothing between; whoever cannot wait cannot be one of fifty waiters; re-entry is looked up per recipe.
 */
function isNotOffered({ store, offers, name }: Recipe, situation: string): boolean {
  if (situation === 'failover') return store !== 'redis'
  if (situation === 'fifty-waiters') return !offers.blocking
  if (situation === 're-entry') return !offers.reentrant && !REENTERED_BY_ACCIDENT.has(name)
  return store === 'sqlite' && ['reply-lost', 'server-restarted', 'blackholed'].includes(situation)
}

const REENTERED_BY_ACCIDENT: ReadonlySet<string> = new Set<string>(['etcd-lease-txn'])

/** A ttl that nobody renews, on a store that forgets when it is restarted, and no token. */
const PLAIN_TTL = ['holder-paused', 'holder-slow', 'blackholed']
const FORGETFUL = [...PLAIN_TTL, 'server-restarted']
const FORGETFUL_REDIS = [...FORGETFUL, 'failover']
/** No end of its own: whoever dies, stops or is cut off blocks everybody. */
const ENDLESS = ['holder-crashes', 'holder-paused', 'reply-lost', 'blackholed']

const ROWS: Readonly<Record<string, Row>> = {
  'redis-setnx-then-expire': {
    unsafe: [...FORGETFUL_REDIS, 'late-release'],
    hangs: ['crash-between-steps', 'reply-lost'],
  },
  'redis-setnx-expire-lua': { unsafe: [...FORGETFUL_REDIS, 'late-release'] },
  'redis-set-nx-px-blind-del': { unsafe: [...FORGETFUL_REDIS, 'late-release'] },
  'redis-set-nx-px-get-then-del': { unsafe: [...FORGETFUL_REDIS, 'late-release'] },
  'redis-set-nx-px-lua-del': { unsafe: FORGETFUL_REDIS },
  'redis-getset-timestamp': { unsafe: [...FORGETFUL_REDIS, 'late-release', 'clock-off'] },
  'redis-spin': { unsafe: FORGETFUL_REDIS, hangs: ['fifty-waiters'] },
  'redis-batch-pipeline': {
    unsafe: [...FORGETFUL_REDIS, 'late-release'],
    hangs: ['crash-between-steps', 'reply-lost'],
  },
  'redlock-five-steps': { unsafe: ['holder-paused', 'server-restarted'] },
  'memcached-add-delete': { unsafe: [...FORGETFUL, 'late-release'] },
  'db-unique-no-expiry': { unsafe: ['late-release'], hangs: ['crash-between-steps', ...ENDLESS] },
  'db-unique-expiry': { unsafe: [...PLAIN_TTL, 'late-release', 'clock-off'] },
  'db-unique-cleaning-job': { unsafe: [...PLAIN_TTL, 'late-release'] },
  'db-unique-owner': { unsafe: ['re-entry'], hangs: ENDLESS },
  'db-select-for-update': { unsafe: ['server-restarted'], hangs: ['holder-paused', 'blackholed'] },
  'zookeeper-ephemeral-all-watch': {
    unsafe: ['holder-paused', 'blackholed', 'late-release'],
    hangs: ['reply-lost'],
  },
  'zookeeper-sequential-watch-parent': { unsafe: ['holder-paused', 'blackholed'], hangs: ['reply-lost'] },
  'zookeeper-sequential-predecessor': { unsafe: ['holder-paused', 'blackholed'], hangs: ['reply-lost'] },
  'etcd-lease-txn': { unsafe: ['holder-paused', 'blackholed', 're-entry'] },
  // memcached gives no token and forgets when it is restarted; the guarantees say so.
  'holdfast-memcached': { unsafe: ['holder-paused', 'server-restarted'] },
}

export function expectation(recipe: Recipe, situation: string): Expectation {
  if (isNotOffered(recipe, situation)) return { word: 'not offered', because: '' }
  const row = ROWS[recipe.name] ?? {}
  const word = row.unsafe?.includes(situation) ? 'unsafe' : row.hangs?.includes(situation) ? 'hangs' : 'safe'
  const own = word === 'unsafe' ? OWN_WORDS[recipe.name] : undefined
  return { word, because: own ?? BECAUSE[situation]?.[word] ?? '' }
}

const OWN_WORDS: Readonly<Record<string, string>> = {
  'holdfast-memcached':
    'Holdfast does not promise this on memcached, and says so in its guarantees: there is no token, and a restart forgets everything.',
}

/** Whether it came out as expected. */
export function isExpected(cell: {
  readonly recipe: Recipe
  readonly situation: { readonly name: string }
  readonly verdict: { readonly word: Word }
}): boolean {
  return expectation(cell.recipe, cell.situation.name).word === cell.verdict.word
}

const BECAUSE: Readonly<Record<string, Readonly<Partial<Record<Word, string>>>>> = {
  'crash-between-steps': {
    safe: 'What the first step leaves behind ends by itself, or blocks nobody.',
    hangs: 'The first step took the lock for good; the step that would have bounded or freed it never came.',
  },
  'holder-crashes': {
    safe: 'A hold that ends by itself, or with its holder’s connection or session, outlives nobody for long.',
    hangs: 'A hold without an end of its own stays when its holder is gone, until somebody deletes it by hand.',
  },
  'holder-paused': {
    safe: 'The register compares tokens: the new holder’s is higher, so the late write is refused. No look at the clock can do that.',
    unsafe:
      'Between the last look and the write any time can pass. Without a token that the resource compares, the late write gets through (Kleppmann, “How to do distributed locking”).',
    hangs: 'The stopped holder keeps its lock for as long as it is stopped: nobody else is served.',
  },
  'holder-slow': {
    safe: 'The hold is renewed (or lasts as long as its connection), or the holder knows in time that it is over.',
    unsafe:
      'Nobody renews the hold and nothing tells the holder that it has run out: it works on while another has it.',
  },
  'reply-lost': {
    safe: 'What the store had done unnoticed either ends by itself or is found again by who asked.',
    hangs: 'The store has given the lock to somebody who does not know it, and it never ends.',
  },
  'server-restarted': {
    safe: 'The store remembers over the restart; or it forgets, and the token (or the votes of the others) still keeps the old holder out.',
    unsafe: 'The store forgets its locks, and nothing tells the holder: the next one to ask gets it, too.',
    hangs: 'The release met a broken connection and is not tried again, while the session lives on and keeps the lock.',
  },
  failover: {
    safe: 'The lock is gone, but tokens go on growing from the server’s clock: the old holder’s write is refused.',
    unsafe:
      'Redis answers before its replicas know. The promoted one never heard of the lock, and gives it away again.',
  },
  'clock-off': {
    safe: 'No client’s wall clock decides when a hold ends.',
    unsafe: 'Clients write and compare wall-clock times: one that is fast takes a hold for over that is not.',
    hangs: 'Clients write and compare wall-clock times: what a fast one wrote ends an hour late.',
  },
  'late-release': {
    safe: 'A release names its own hold, and checks and deletes it in one step.',
    unsafe:
      'The release deletes whatever is there, or checks in one step and deletes in another: by then it is another’s lock.',
  },
  're-entry': {
    safe: 'Inner holds are counted: the lock is free when the outermost lets go.',
    unsafe: 'Whoever holds may enter again, but nobody counts: letting go of the inner hold frees the outer one.',
  },
  'fifty-waiters': {
    safe: 'Everybody is served. What a hand-off costs, and who is passed by later ones, differs much.',
    hangs: 'Waiting is a race that some lose every time, or tries that are counted: whoever has used them up gives up.',
  },
  blackholed: {
    safe: 'The holder keeps the deadline on its own clock: it knows that its hold is over before another can have it.',
    unsafe: 'The hold ends at the store, but the holder learns such things from the store alone, which it cannot hear.',
    hangs: 'Nothing ends the hold of somebody whose connection is silent but not closed.',
  },
}
