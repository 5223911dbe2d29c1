import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { Register, type RegisterRequest } from './register.js'

/**
 * The register's process: it is what the locks are there to protect, and knows nothing of them. It speaks JSON
 * lines (see RegisterRequest) on the port that it prints first.
 */

const register = new Register()

function serve(socket: Socket): void {
  const visits = new Set<number>()
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('close', () => register.abandon(visits))
  createInterface({ input: socket }).on('line', (line) => {
    const answer = register.answer(JSON.parse(line) as RegisterRequest)
    if (answer.visit !== undefined) visits.add(answer.visit)
    socket.write(`${JSON.stringify(answer)}\n`)
  })
}

const server = createServer(serve)
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
// Whoever started it is gone: so is the reason to be.
process.stdin.on('end', () => process.exit(0)).resume()
