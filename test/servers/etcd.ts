import { join } from 'node:path'
import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePorts } from './ports.js'
import { ask } from './probe.js'
import { flags, type Server, startServer } from './process.js'
import { temporaryDirectory } from './watchdog.js'

export interface EtcdOptions {
  /** Further arguments of etcd: ['--quota-backend-bytes', '16777216']. */
  readonly args?: readonly string[]
}

/** Several servers that are one store. */
export interface Ensemble {
  readonly url: string
  readonly members: readonly Server[]
  stop(): Promise<void>
}

/** One etcd server. */
export async function startEtcd(options: EtcdOptions = {}): Promise<Server> {
  const outside = outsideUrl('etcd')
  if (outside !== undefined) return outsideServer(outside, 2379)
  const { members } = await startEtcdCluster({ ...options, size: 1 })
  return members[0] as Server
}

/** An etcd cluster; of 3 members when not told otherwise. */
export async function startEtcdCluster(options: EtcdOptions & { size?: number } = {}): Promise<Ensemble> {
  const file = await ensure('etcd')
  const size = options.size ?? 3
  const ports = await freePorts(size)
  const peers = await freePorts(size)
  const cluster = peers.map((peer, index) => `m${index}=http://127.0.0.1:${peer}`).join(',')
  const members = await Promise.all(
    ports.map((port, index) => {
      const directory = temporaryDirectory('etcd')
      const peer = `http://127.0.0.1:${peers[index]}`
      return startServer({
        name: 'etcd',
        url: `etcd://127.0.0.1:${port}`,
        port,
        otherPorts: [peers[index] as number],
        directory,
        file,
        args: [
          ...flags({
            name: `m${index}`,
            'data-dir': join(directory, 'data'),
            logger: 'zap',
            'log-level': 'warn',
            'listen-client-urls': `http://127.0.0.1:${port}`,
            'advertise-client-urls': `http://127.0.0.1:${port}`,
            'listen-peer-urls': peer,
            'initial-advertise-peer-urls': peer,
            'initial-cluster': cluster,
            'initial-cluster-token': `holdfast-${ports[0]}`,
            'initial-cluster-state': 'new',
          }),
          ...(options.args ?? []),
        ],
        ready: async () => {
          const answer = await ask(port, 'GET /health HTTP/1.0\r\n\r\n', 5_000)
          return answer?.includes('"health":"true"') ?? false
        },
      })
    }),
  )
  return {
    url: `etcd://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`,
    members,
    stop: async () => void (await Promise.all(members.map((member) => member.stop()))),
  }
}
