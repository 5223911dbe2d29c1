import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensure, type Server, startMariadb } from '../servers/index.js'

const run = promisify(execFile)
const directory = mkdtempSync(join(tmpdir(), 'holdfast-mysql-tls-'))
const servers: Server[] = []

/** A server that speaks TLS alone, with a certificate for this name. */
async function start(name: string): Promise<Server> {
  const [key, cert] = [join(directory, `${name}.key`), join(directory, `${name}.pem`)]
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`]
  const files = ['-keyout', key, '-out', cert]
  await run('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...files, ...subject])
  const server = await startMariadb({
    args: [`--ssl-cert=${cert}`, `--ssl-key=${key}`, '--require-secure-transport=ON'],
  })
  servers.push(server)
  return server
}

/** What a process says that trusts this certificate and takes a lock. */
async function take(server: Server, host: string, trusted: string): Promise<string> {
  const dist = new URL('../../dist/index.js', import.meta.url).href
  const script = `import { connect } from '${dist}'
    try {
      const locks = await connect(process.argv[1])
      await locks.lock('tls').use(async () => console.log('held'))
      await locks.close()
    } catch (error) { console.log(error.code, error.message) }`
  const url = `mysql://root:secret@${host}:${server.port}/holdfast?tls=true`
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, url], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: join(directory, `${trusted}.pem`) },
  })
  return stdout
}

let right: Server
let wrong: Server

beforeAll(async () => {
  await ensure('openssl')
  ;[right, wrong] = await Promise.all([start('localhost'), start('db.example')])
})
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()))
  rmSync(directory, { recursive: true })
})

test('a certificate of the host’s name passes', async () => {
  expect(await take(right, 'localhost', 'localhost')).toBe('held\n')
})

test('a certificate that is trusted but another host’s is refused', async () => {
  expect(await take(wrong, 'localhost', 'db.example')).toMatch(/BACKEND.*localhost.*db\.example/s)
})

test('an address cannot be compared: the certificate must be trusted', async () => {
  expect(await take(wrong, '127.0.0.1', 'db.example')).toBe('held\n')
  expect(await take(wrong, '127.0.0.1', 'localhost')).toMatch(/BACKEND.*certificate/s)
})
