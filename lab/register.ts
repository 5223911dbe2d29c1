import { createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { Register } from './register/register.js'

/**
 * The register's process: what the locks are there to protect. It knows nothing of locks. One JSON document
 * a line: { "do": "read", owner, fence? }, { "do": "write", visit }, { "do": "reset" } and { "do": "tell" }.
 * The first line it prints is its port.
 */

const register = new Register()

function serve(socket: Socket): void {
  socket.on('error', () => socket.destroy())
  createInterface({ input: socket }).on('line', (line) => {
    socket.write(`${JSON.stringify(register.answer(JSON.parse(line)))}\n`)
  })
}

const server = createServer(serve)
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
// Whoever started it is gone: so is the reason to be.
process.stdin.on('end', () => process.exit(0)).resume()
