import type { Proxy } from '../../test/servers/index.js'
import type { Actor } from '../actor.js'
import type { Situation } from '../situation.js'
import type { Stage } from '../stage.js'

/** The store does what it was asked, but its answer never arrives. */
const situation: Situation = {
  name: 'reply-lost',
  title: 'reply lost',
  story:
    'The store takes A’s request, but the connection breaks before the answer arrives (once for the first answer, once for the second). Whatever A makes of it, B must be served soon after.',
  async run(stage) {
    if (stage.rig.servers.length === 0) stage.notOffered('the store is a file: there is no reply to lose')
    for (const nth of [1, 2]) {
      // A session must not end meanwhile for want of heartbeats: whether it should is another question.
      const ttlMs = stage.rig.sessions ? stage.longTtlMs : stage.ttlMs
      const [a, b] = await Promise.all([stage.contender(`A${nth}`, { ttlMs }), stage.contender(`B${nth}`)])
      if (!(await loseReply(stage, a, b, nth))) return
    }
  },
}

/** False when B was not served. */
async function loseReply(stage: Stage, a: Actor, b: Actor, nth: number): Promise<boolean> {
  await a.warmUp()
  const lock = stage.lock()
  const { proxies } = a.ways
  const answers = (chunk: Buffer): boolean => stage.rig.answers(chunk, lock)
  for (const proxy of proxies) {
    if (nth === 1) proxy.replies.fault = 'drop'
    else void proxy.next('replies', answers).then(() => (proxy.replies.fault = 'drop'))
  }
  const replies = Promise.all(proxies.map((proxy) => nextReplies(proxy, nth, answers)))
  const asking = a.acquire(lock, 3 * stage.ttlMs)
  const lost = await Promise.race([replies.then(() => true), asking.then(() => false)])
  if (lost) stage.mark('fault', nth === 1 ? 'the reply is lost' : 'the second reply is lost', a.owner)
  for (const proxy of proxies) {
    await proxy.heal()
    if (lost) proxy.cutNow()
  }
  const { hold: held } = await asking
  await held?.work()
  await held?.release()
  const hold = await b.mustBeServed(lock, `${a.owner} does not think that it holds it`)
  await hold?.work(stage.spellMs)
  await hold?.release()
  return hold !== undefined
}

async function nextReplies(proxy: Proxy, times: number, answers: (chunk: Buffer) => boolean): Promise<void> {
  for (let at = 0; at < times; at += 1) await proxy.next('replies', answers)
}

export default situation
