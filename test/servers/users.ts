import { readFileSync } from 'node:fs'

/** The numbers of a user, for servers that refuse to run as root; undefined when we are not root. */
export function userToDropTo(name: string): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`))
  if (line === undefined) throw new Error(`There is no user '${name}' to run the server as: install its package.`)
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}
