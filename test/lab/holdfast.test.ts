import { assertMatrix } from './matrix.js'

/** Holdfast holds in every cell that its guarantees claim. */
await assertMatrix('of Holdfast')
