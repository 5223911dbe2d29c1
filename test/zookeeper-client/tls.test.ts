import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openBackend } from '../../src/connect.js'
import type { BackendEvents } from '../../src/core/backend.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { ensure, freePorts, releasePort, type Server, startZookeeper } from '../servers/index.js'

const EVENTUALLY = { timeout: 20_000, interval: 20 }
const SILENT: BackendEvents = { granted() {}, moved() {}, lost() {}, unsure() {} }

describe('a server that speaks TLS itself', () => {
  let directory: string
  let secure: Server
  let port: number
  const clients: Holdfast[] = []
  const file = (name: string): string => join(directory, name)

  /** A key of its own, and its certificate: what each side shows, and what the other side trusts. */
  async function certify(name: string): Promise<void> {
    const store = ['-keystore', file(`${name}.p12`), '-storepass', 'password', '-storetype', 'PKCS12', '-alias', name]
    const run = promisify(execFile)
    const subject = ['-dname', `CN=${name}`, '-ext', 'san=ip:127.0.0.1,dns:localhost']
    await run('keytool', ['-genkeypair', '-keyalg', 'EC', ...subject, ...store])
    await run('keytool', ['-exportcert', '-rfc', '-file', file(`${name}.pem`), ...store])
    const pem = ['-passin', 'pass:password', '-nodes', '-nocerts', '-out', file(`${name}.key`)]
    await run('openssl', ['pkcs12', '-in', file(`${name}.p12`), ...pem])
  }

  beforeAll(async () => {
    await ensure('java', '/usr/share/java/zookeeper.jar', 'openssl')
    directory = await mkdtemp(join(tmpdir(), 'holdfast-zookeeper-tls-'))
    await Promise.all([certify('server'), certify('client')])
    const trusted = ['-keystore', file('trust.p12'), '-storepass', 'password', '-storetype', 'PKCS12', '-noprompt']
    await promisify(execFile)('keytool', ['-importcert', '-file', file('client.pem'), '-alias', 'c', ...trusted])
    ;[port] = (await freePorts(1)) as [number]
    secure = await startZookeeper({
      config: [`secureClientPort=${port}`, 'secureClientPortAddress=127.0.0.1'],
      args: [
        '-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory',
        `-Dzookeeper.ssl.keyStore.location=${file('server.p12')}`,
        '-Dzookeeper.ssl.keyStore.password=password',
        `-Dzookeeper.ssl.trustStore.location=${file('trust.p12')}`,
        '-Dzookeeper.ssl.trustStore.password=password',
      ],
      jars: ['netty-codec', 'netty-resolver', 'netty-transport-native-unix-common'],
    })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await secure.stop()
    releasePort(port)
    await rm(directory, { recursive: true })
  })

  const url = (query: string): string => `zookeeper://127.0.0.1:${port}/tls?session=15s&tick=200ms&tls=true${query}`
  const own = (name: string): string => `&cert=${file(`${name}.pem`)}&key=${file(`${name}.key`)}`

  test('with a certificate of ours that it trusts, and its own that we trust', async () => {
    const trusting = url(`&ca=${file('server.pem')}${own('client')}`)
    const [a, b] = [new Holdfast(await openBackend(trusting)), new Holdfast(await openBackend(trusting))]
    clients.push(a, b)
    const held = await a.lock('secure').acquire()
    const waiting = b.lock('secure').acquire()
    await vi.waitFor(async () => expect((await a.view('secure'))[0]!.tickets).toHaveLength(2), EVENTUALLY)
    await held.release()
    const next = await waiting
    expect(next.fence).toBeGreaterThan(held.fence)
    // More than one TLS record each way.
    const many = Array.from({ length: 200 }, (_, i) =>
      a.lock(`secure-${i}`).use((lease) => Promise.resolve(lease.fence)),
    )
    expect((await Promise.all(many)).every((fence) => fence > next.fence)).toBe(true)
    await next.release()
  })

  test.each([
    ['without a certificate of ours', () => url(`&ca=${file('server.pem')}`)],
    ['with one that it does not trust', () => url(`&ca=${file('server.pem')}${own('server')}`)],
    ['where we do not trust its own', () => url(`&ca=${file('client.pem')}${own('client')}`)],
  ])('%s nothing is taken, and the error says so', async (_, to) => {
    const backend = await openBackend(to())
    const error: unknown = await backend.open(SILENT).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'BACKEND' })
    expect(String(error)).toContain('ZooKeeper cannot be reached')
    await backend.close()
  })
})
