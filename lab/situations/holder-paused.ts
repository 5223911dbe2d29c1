import type { Situation } from '../situation.js'

/** The holder is stopped for longer than its ttl: a long garbage collection, a suspended machine. */
const situation: Situation = {
  name: 'holder-paused',
  title: 'holder paused past its ttl',
  story:
    'A has just looked at its lock and is about to write when it is stopped (SIGSTOP). B takes the lock and writes. Then A wakes and writes: only a fencing token lets the register refuse it.',
  async run(stage) {
    const lock = stage.lock()
    const [a, b] = await Promise.all([stage.contender('A'), stage.contender('B')])
    const held = await a.mustBeServed(lock, 'nobody else was there')
    const writing = await held?.workAndStop()
    stage.mark('fault', 'stopped', 'A')
    const resume = a.pause()
    const hold = await b.mustBeServed(lock, 'A had been stopped for much longer than its ttl')
    await hold?.work(stage.spellMs)
    resume()
    stage.mark('healed', 'goes on', 'A')
    await a.goOn()
    await Promise.all([writing?.done, hold?.work(stage.spellMs)])
    await hold?.release()
    await held?.release()
  },
}

export default situation
