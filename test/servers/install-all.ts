import { installAll } from './install.js'

try {
  await installAll()
} catch (error) {
  // Each test that needs something says what is missing, and how to have it.
  console.error(error instanceof Error ? error.message : String(error))
}
