import { assertMatrix } from './matrix.js'

/** Every recipe breaks where the literature says so, and nowhere else. */
await assertMatrix('of others')
