import { connect } from 'holdfast'
import type { Contender } from './contender.js'

/** Holdfast on any store, as its users have it: fenced, fair, renewed. */
export const holdfast: Contender = {
  name: 'holdfast',
  role: 'holdfast',
  open: async (url) => {
    const client = await connect(url)
    return {
      acquire: async (name) => {
        const lease = await client.lock(name).acquire()
        return () => lease.release()
      },
      close: () => client.close(),
    }
  },
}

/** The same in the session mode of a database. */
export const holdfastSession: Contender = {
  ...holdfast,
  name: 'holdfast, session',
  open: (url) => holdfast.open(`${url}?mode=session`),
}
