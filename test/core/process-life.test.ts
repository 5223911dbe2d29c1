import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'

const IMPORT = `const { connect } = await import('${new URL('../../dist/index.js', import.meta.url).href}')
const locks = await connect('memory:')
const held = await locks.lock('x').acquire();`

async function run(code: string): Promise<{ code: number | null; out: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', IMPORT + code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.on('data', (data: Buffer) => (out += data.toString()))
  const late = setTimeout(() => child.kill('SIGKILL'), 20_000)
  const [exit] = (await once(child, 'exit')) as [number | null]
  clearTimeout(late)
  return { code: exit, out }
}

test('a held lease never keeps the process alive', async () => {
  expect(await run('console.log(held.state)')).toEqual({ code: 0, out: 'held\n' })
})

test('a pending acquire does', async () => {
  const { code, out } = await run(
    `locks.lock('x').acquire({ wait: '300ms' }).catch((error) => console.log(error.code)).finally(() => locks.close())`,
  )
  expect({ code, out }).toEqual({ code: 0, out: 'LOCK_TIMEOUT\n' })
})
