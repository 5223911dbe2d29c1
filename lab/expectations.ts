import { isHoldfast } from './catalogue.js'
import type { Recipe } from './recipe.js'
import { type Traits, TRAITS } from './traits.js'
import type { Word } from './verdict.js'

/** What the literature (for Holdfast: its own guarantees) lets one expect of a recipe in a situation, and why. */
export interface Expectation {
  readonly word: Word
  readonly because: string
}

export function expectation({ name, store }: Recipe, situation: string): Expectation {
  const traits = TRAITS[name]
  const rule = RULES[situation]
  if (traits === undefined) throw new Error(`lab/traits.ts does not say what ${name} is made of.`)
  if (rule === undefined) throw new Error(`lab/expectations.ts has no rule for ${situation}.`)
  if (store === 'sqlite' && ['reply-lost', 'server-restarted', 'blackholed'].includes(situation)) {
    return notOffered('The store is a file: there is no server to restart, and no network between.')
  }
  // Elsewhere a new leader knows what the old one had acknowledged, or there is only one server.
  if (situation === 'failover' && store !== 'redis') {
    return notOffered('Only a single Redis is run with replicas that lag behind it.')
  }
  const expected = rule(traits)
  if (!isHoldfast({ name }) || expected.word === 'safe') return expected
  return {
    ...expected,
    because: `${expected.because} Holdfast does not promise it on ${store}: its guarantees say so.`,
  }
}

/** Whether it came out as expected. */
export function isExpected(cell: {
  readonly recipe: Recipe
  readonly situation: { readonly name: string }
  readonly verdict: { readonly word: Word }
}): boolean {
  return expectation(cell.recipe, cell.situation.name).word === cell.verdict.word
}

type Rule = (traits: Traits) => Expectation

const RULES: Readonly<Record<string, Rule>> = {
  'crash-between-steps': (traits) => {
    if (traits.taken === 'bounded later') {
      return hangs(
        'The first command took the lock, the second would have given it an expiry and never came: the key stays for good (the reason why SET learnt NX and EX).',
      )
    }
    if (traits.taken === 'looks first' && (traits.ends === 'nothing' || traits.ends === 'wall clocks')) {
      return safe('It dies after its first look and before the insert that takes the lock: nothing is left behind.')
    }
    return afterDeath(traits)
  },

  'holder-crashes': (traits) => afterDeath(traits),

  'holder-paused': (traits) => {
    if (traits.token) {
      return safe(
        'The hold runs out and the next one gets a higher token. The late write comes with the lower one, and the register refuses it: no look at a clock could.',
      )
    }
    if (traits.ends === 'nothing') {
      return hangs('The row stays for as long as its holder does not delete it, and a stopped holder deletes nothing.')
    }
    if (traits.ends === 'connection') {
      return hangs(
        'A stopped process keeps its connection open, so its transaction keeps the row: nobody else is served until it goes on.',
      )
    }
    return unsafe(
      'Its look said yes, then it stood still, the hold ran out and another took it; it cannot know and writes. Without a token that the resource compares nothing stops that write (Kleppmann, “How to do distributed locking”).',
    )
  },

  'holder-slow': (traits) => {
    if (traits.ends === 'nothing')
      return safe('The row has no end: it stays until its holder deletes it, however slow.')
    if (traits.ends === 'connection')
      return safe('The transaction, and the row lock with it, lasts until the holder commits.')
    if (traits.ends === 'session' && traits.lasts) {
      return safe('Heartbeats keep the session, and the hold with it, for as long as the holder is alive and well.')
    }
    if (traits.lasts) return safe('The hold is renewed well before it runs out, for as long as the holder works.')
    if (traits.learns === 'own clock') {
      return safe('It is not renewed, but the holder knows for how long it is valid, and stops in time.')
    }
    return unsafe(
      'The work takes longer than the ttl, nobody renews the hold, and nothing tells the holder: it works on while another has it.',
    )
  },

  'reply-lost': (traits) => {
    if (traits.asksAgain) {
      return safe(
        'The request is sent again, and the store knows it again: it finds the hold that the first one made instead of making a second.',
      )
    }
    if (traits.taken === 'bounded later') {
      return hangs(
        'SETNX has taken the key, but its answer is lost. Asked again it says 0, so the client thinks that another holds it, and never sends the EXPIRE.',
      )
    }
    if (traits.ends === 'nothing') {
      return hangs('The row is in the table, but the client saw an error and does not know it: nobody deletes it.')
    }
    if (traits.ends === 'session') {
      return hangs(
        'The node was made, but the client saw an error and does not know it. Its session lives on and keeps the node (ZooKeeper’s recipe page asks for a GUID in the name, to find it again).',
      )
    }
    if (traits.ends === 'connection') {
      return safe('With the connection the transaction ends, and the row lock that nobody knew of.')
    }
    return safe('The store holds it for a client that does not know, but only until the ttl has run out.')
  },

  'server-restarted': (traits) => {
    if (traits.restart === 'remembers') {
      return safe('The store has written the hold to its disk, and knows it when it is up again.')
    }
    if (traits.restart === 'ends') {
      return unsafe(
        'The row lock ends with the connection. The work that it was to protect lies outside the database, and is not told.',
      )
    }
    if (traits.restart === 'that vote does not count') {
      return safe(
        'A server that was restarted does not vote until every hold that it may have forgotten has run out: no second majority comes together.',
      )
    }
    if (traits.restart === 'one vote is forgotten') {
      return unsafe(
        'One of A’s three votes is forgotten, and that server votes again at once: with the two that A did not reach it makes a second majority (the Redlock page asks for a delayed restart, which is left to whoever runs the servers).',
      )
    }
    if (traits.token) {
      return safe(
        'The store forgets the hold, but tokens go on growing from the server’s clock: what the new holder has touched, the old one can no longer write.',
      )
    }
    return unsafe('The store has forgotten the hold, and nothing tells the holder: the next one to ask gets it, too.')
  },

  failover: (traits) =>
    traits.token
      ? safe(
          'The hold is gone, but tokens go on growing from the server’s clock: what the new holder has touched, the old one can no longer write.',
        )
      : unsafe(
          'Redis answers before its replicas know. The one that is promoted never heard of the hold, and gives it to the next one to ask.',
        ),

  'clock-off': (traits) =>
    traits.ends === 'wall clocks'
      ? unsafe(
          'Clients write and compare wall-clock times. To one that is an hour fast, every hold of the others ran out long ago.',
        )
      : safe(
          traits.ends === 'nothing' || traits.ends === 'connection'
            ? 'A hold has no time in it that a clock could be wrong about.'
            : 'When a hold ends is counted where it is kept, by a clock that all share: no client’s wall clock is asked.',
        ),

  'late-release': (traits) => {
    if (traits.frees === 'its own') {
      return safe(
        'A release names its own hold, and the store compares and deletes in one step: a late one finds nothing.',
      )
    }
    if (traits.frees === 'what it saw') {
      return unsafe('It compares in one step and deletes in another: in between the lock has become another’s.')
    }
    return unsafe('The release deletes whatever is there, without asking whose it is: a late one frees another’s lock.')
  },

  're-entry': (traits) => {
    if (traits.again === 'refused') return notOffered('Whoever holds it and asks again is refused like everybody else.')
    if (traits.again === 'counted') return safe('Inner holds are counted: it is free when the outermost is let go.')
    return unsafe('Whoever holds it is let in again, but nobody counts: the first release of the two frees it for all.')
  },

  'fifty-waiters': (traits) => {
    if (traits.waits === undefined) return notOffered('It has no way to wait.')
    if (traits.waits === 'in line') return safe('Everybody stands in line, and is served in turn.')
    if (traits.waits === 'by race') {
      return safe('It is a race that later ones may win, but nobody gives up, so everybody wins one in the end.')
    }
    return hangs('Ten tries, 200 ms apart, are two seconds: whoever has lost all of them gives up and is never served.')
  },

  blackholed: (traits) => {
    if (traits.learns === 'own clock') {
      return safe('The holder keeps the deadline on its own clock, and stops before the store gives the lock away.')
    }
    if (traits.ends === 'nothing') return hangs('The row stays: its holder cannot delete it, and nobody else may.')
    if (traits.ends === 'connection') {
      return hangs(
        'To the server a connection that is silent looks like one whose client thinks: it keeps the transaction, and its row lock.',
      )
    }
    if (traits.learns === 'late') {
      return unsafe(
        'The store ends the lease after one ttl. The client library tells the holder after two: in between another holds it, too.',
      )
    }
    return unsafe(
      'The hold ends at the store. The holder would have to hear that from the store, which it cannot reach, and works on.',
    )
  },
}

/** What is left when a holder is killed. */
function afterDeath({ ends }: Traits): Expectation {
  switch (ends) {
    case 'ttl':
      return safe('The store lets the hold run out after its ttl, and the next one is served.')
    case 'wall clocks':
      return safe('The time at which it ends is written down: when that has passed, the next one takes it over.')
    case 'cleaning job':
      return safe('The cleaning job deletes the row when it has stood for longer than the ttl.')
    case 'session':
      return safe('Without heartbeats the session ends, and what was made in it goes with it.')
    case 'connection':
      return safe('The server sees the connection close, and ends the transaction that had the row.')
    case 'nothing':
      break
  }
  return hangs(
    'The row has no end of its own, and whoever would have deleted it is dead: it stays until someone does so by hand.',
  )
}

function safe(because: string): Expectation {
  return { word: 'safe', because }
}

function unsafe(because: string): Expectation {
  return { word: 'unsafe', because }
}

function hangs(because: string): Expectation {
  return { word: 'hangs', because }
}

function notOffered(because: string): Expectation {
  return { word: 'not offered', because }
}
