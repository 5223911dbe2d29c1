import { lab, LabUsageError } from './main.js'

/** `npm run lab`. */
try {
  process.exitCode = await lab(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof LabUsageError)) throw error
  process.stderr.write(`lab: ${error.message}\n`)
  process.exitCode = 64
}
