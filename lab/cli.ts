import { lab, LabUsageError } from './main.js'

/** `npm run lab`. */

// A reader that has gone (`… | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 141 : 70))

try {
  process.exitCode = await lab(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof LabUsageError)) throw error
  process.stderr.write(`lab: ${error.message}\n`)
  process.exitCode = 64
}
