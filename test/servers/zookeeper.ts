import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ensemble } from './etcd.js'
import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePorts } from './ports.js'
import { ask } from './probe.js'
import { type Server, startServer } from './process.js'
import { temporaryDirectory } from './watchdog.js'

const JAR = '/usr/share/java/zookeeper.jar'

export interface ZookeeperOptions {
  /** Milliseconds; sessions last between 2 and 20 ticks (or 60 s). */
  readonly tickTime?: number
  /** Further lines of zoo.cfg: ['maxClientCnxns=5']. */
  readonly config?: readonly string[]
  /** Further arguments of java, before the class: ['-Dzookeeper.skipACL=yes']. */
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Further jars of /usr/share/java, beyond what ZooKeeper itself names: ['netty-codec']. */
  readonly jars?: readonly string[]
}

/** One ZooKeeper server. */
export async function startZookeeper(options: ZookeeperOptions = {}): Promise<Server> {
  const outside = outsideUrl(JAR)
  if (outside !== undefined) return outsideServer(outside, 2181)
  const { members } = await startZookeeperEnsemble({ ...options, size: 1 })
  return members[0] as Server
}

/** A ZooKeeper ensemble; of 3 servers when not told otherwise. */
export async function startZookeeperEnsemble(options: ZookeeperOptions & { size?: number } = {}): Promise<Ensemble> {
  const java = await ensure('java', JAR)
  const size = options.size ?? 3
  const ports = await freePorts(size)
  const quorum = await freePorts(size)
  const election = await freePorts(size)
  const servers = ports.map((_, index) => `server.${index + 1}=127.0.0.1:${quorum[index]}:${election[index]}`)
  const members = await Promise.all(
    ports.map((port, index) => {
      const directory = temporaryDirectory('zookeeper')
      mkdirSync(join(directory, 'data'))
      writeFileSync(join(directory, 'data', 'myid'), String(index + 1))
      const config = [
        `tickTime=${options.tickTime ?? 200}`,
        'initLimit=100',
        'syncLimit=25',
        `dataDir=${join(directory, 'data')}`,
        `clientPort=${port}`,
        'clientPortAddress=127.0.0.1',
        'maxSessionTimeout=60000',
        'maxClientCnxns=0',
        'admin.enableServer=false',
        '4lw.commands.whitelist=*',
        // A test's data need not outlive the machine, and 64 MB of zeros a server need not be written.
        'forceSync=no',
        'preAllocSize=1024',
        ...(size > 1 ? servers : []),
        ...(options.config ?? []),
      ]
      writeFileSync(join(directory, 'zoo.cfg'), `${config.join('\n')}\n`)
      return startServer({
        name: 'ZooKeeper',
        url: `zookeeper://127.0.0.1:${port}`,
        port,
        otherPorts: [quorum[index] as number, election[index] as number],
        directory,
        file: java,
        ...(options.env === undefined ? {} : { env: options.env }),
        args: [
          // Quick to start, small, and one garbage collector thread: three of them share two cores.
          '-Xmx256m',
          '-XX:+UseSerialGC',
          '-XX:TieredStopAtLevel=1',
          '-Xshare:auto',
          '-XX:-UsePerfData',
          '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
          ...(options.args ?? []),
          '-cp',
          [JAR, ...['slf4j-simple', ...(options.jars ?? [])].map((jar) => `/usr/share/java/${jar}.jar`)].join(':'),
          'org.apache.zookeeper.server.quorum.QuorumPeerMain',
          join(directory, 'zoo.cfg'),
        ],
        ready: async () => (await ask(port, 'srvr', 2_000))?.includes('Mode:') ?? false,
      })
    }),
  )
  return {
    url: `zookeeper://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`,
    members,
    stop: async () => void (await Promise.all(members.map((member) => member.stop()))),
  }
}
