import { startProxy, startRedis } from '../../test/servers/index.js'
import { type Extra, goal, type StoreBench } from '../contender.js'
import { connect } from 'holdfast'
import { holdfast } from '../holdfast.js'
import { ioredis, redlock } from './redis.js'

/** A server counts once it has been up for longer than the longest ttl, so the run starts with a wait. */
const MAX_TTL_S = 30

const hostsOf = (url: string): string[] => /^redlock:\/\/([^?]*)/.exec(url)![1]!.split(',')
const nodes = async (url: string) => await Promise.all(hostsOf(url).map((host) => ioredis(`redis://${host}`)))

const store: StoreBench = {
  name: 'redlock',
  start: async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, () => startRedis()))
    await new Promise((resolve) => setTimeout(resolve, (MAX_TTL_S + 2) * 1_000))
    return {
      url: `redlock://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}?maxTtl=${MAX_TTL_S}s`,
      stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
    }
  },
  contenders: [redlock('redlock', { retryDelay: 10 }, nodes), holdfast],
  goals: (results) => {
    const ours = results['holdfast']!
    return [
      goal('sequential pairs/s, fenced, against redlock', ours.sequential! / results['redlock']!.sequential!, '≥', 0.9),
      goal('drain 2 × 50: served', ours.drain!.served, '≥', 100),
      goal('drain 2 × 50 against ideal', ours.drain!.ms / ours.drain!.idealMs, '≤', 10),
    ]
  },
  extras: async (url) => [await twoBlackholed(url)],
}
export default store

/** 100 pairs while two of five servers take everything and answer nothing. */
async function twoBlackholed(url: string): Promise<Extra> {
  const proxies = await Promise.all(
    hostsOf(url).map((host) => startProxy({ host: '127.0.0.1', port: Number(host.split(':')[1]) })),
  )
  const client = await connect(
    `redlock://${proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')}?maxTtl=${MAX_TTL_S}s`,
  )
  await (await client.lock('bench:hole').acquire()).release()
  for (const proxy of proxies.slice(0, 2)) proxy.blackhole()
  const from = performance.now()
  let done = 0
  for (; done < 100; done += 1) await (await client.lock('bench:hole').acquire({ wait: '20s' })).release()
  const ms = performance.now() - from
  await client.close()
  await Promise.all(proxies.map((proxy) => proxy.stop()))
  return {
    title: 'Two of five servers blackholed',
    values: { pairs: done, 'ms a pair': (ms / done).toFixed(2) },
    goals: [goal('pairs with two of five blackholed: none hangs', done, '≥', 100)],
  }
}
