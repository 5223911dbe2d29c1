import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { RegisterAnswer, RegisterRequest } from './register.js'

/** A connection to the register: answers come in the order of the requests. */
export class RegisterClient {
  readonly #socket: Socket
  readonly #waiting: ((answer: RegisterAnswer) => void)[] = []

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    createInterface({ input: this.#socket }).on('line', (line) =>
      this.#waiting.shift()?.(JSON.parse(line) as RegisterAnswer),
    )
    // Only when the whole lab is ended from outside: nobody asks any more.
    this.#socket.on('error', () => this.#socket.destroy())
  }

  ask(request: RegisterRequest): Promise<RegisterAnswer> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#socket.write(`${JSON.stringify(request)}\n`)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}
