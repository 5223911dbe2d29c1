import { memory } from '../../src/backends/memory/index.js'
import { describeBackend } from '../suite.js'

describeBackend('memory', memory().guarantees, async () => ({ url: 'memory:conformance', stop: async () => {} }))
