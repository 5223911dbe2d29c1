/** The help texts: one a command, each with examples that can be pasted. */

const STORE = `  --store URL          the store; else HOLDFAST_URL, else a SQLite file of yours on this machine
  -h, --help           this text`

export const HELP: Readonly<Record<string, string>> = {
  '': `holdfast: fair, fenced locks for commands

Usage
  holdfast run NAME [options] -- COMMAND [ARG...]   run a command under a lock
  holdfast ls [PREFIX]                              list what is held and waited for
  holdfast show NAME                                who holds it, who waits
  holdfast evict NAME                               break a stuck holder
  holdfast top [PREFIX]                             watch, live
  holdfast migrate [--print]                        make or print the tables of a database store
  holdfast lab [RECIPE...]                          see locks break, and hold, on real servers
  holdfast COMMAND --help                           more on one of them
  holdfast --version

Examples
  holdfast run nightly-report -- ./report.sh
  holdfast run deploy --no-wait -- ./deploy.sh || echo "somebody deploys already"
  holdfast ls
  HOLDFAST_URL=redis://localhost:6379 holdfast top
`,

  run: `holdfast run: run a command under a lock

Usage
  holdfast run NAME [options] -- COMMAND [ARG...]

Options
  --wait DURATION      wait at most so long for the lock (default: for ever)
  --no-wait            do not wait: exit 75 when it is taken
  --ttl DURATION       how long the lock lasts without a renewal (default 30s, at least 1s);
                       it is renewed for as long as the command runs
  --kill-after DURATION  SIGTERM comes so long before the ttl ends unrenewed, SIGKILL when it ends
                       (default: a third of the ttl, at most 5s)
  --grace DURATION     the store frees a lost lock so much later than the ttl (default 5s, at least
                       250ms): the command is dead before anyone else can start
  --read, --write      take the read-write lock NAME: readers share it, a writer is alone
  --permits K/N        take K permits of the semaphore NAME of N
  --owner TEXT         a name for the holder, shown by ls and show (default: random)
  --note TEXT          a small text, shown by ls and show
  --json               tell what happens as JSON lines on stderr
${STORE}

A DURATION is 250ms, 30s, 5m or 1h.

The command gets HOLDFAST_NAME, HOLDFAST_FENCE (a number that grows from holder to holder: let what you
write to refuse a lower one) and HOLDFAST_OWNER. It runs in a process group and session of its own, with
this one's stdin, stdout and stderr. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and
SIGCONT are passed on to the group. A guardian process stops the group in time when the lock is lost, also
when holdfast itself was killed or stopped.

Exit status
  the command's own; 128+N when signal N ended it
  64   the command line is wrong            75   the lock was not to be had in time
  69   the store cannot be used             76   the lock was lost and the command stopped
  70   a fault of holdfast's own            126, 127   the command cannot be executed, is not there

Examples
  holdfast run nightly-report --wait 10s -- ./report.sh --all
  holdfast run t --no-wait -- sleep 5; echo $?
  holdfast run gpu --permits 1/4 -- python train.py
  holdfast run catalogue --read -- ./export.sh
  holdfast run fence-demo -- sh -c 'echo "$HOLDFAST_NAME $HOLDFAST_FENCE"'
  0 3 * * *  holdfast run backup --no-wait --store redis://db1:6379 -- /usr/local/bin/backup   # in a crontab
`,

  ls: `holdfast ls: list what is held and waited for

Usage
  holdfast ls [PREFIX] [--json] [--store URL]

Options
  --json               one JSON document a line and line of tickets; the form is that of show's "lines"
${STORE}

Examples
  holdfast ls
  holdfast ls invoice:
  holdfast ls --json | jq -r 'select(.waiting > 0) | .name'
`,

  show: `holdfast show: who holds a lock, who waits

Usage
  holdfast show NAME [--json] [--store URL]

Options
  --json               one JSON document: {"name", "lines": [{"kind", "name", "held", "waiting", "tickets": [...]}]};
                       orders and fences are decimal text
${STORE}

Examples
  holdfast show nightly-report
  holdfast show nightly-report --json | jq -r '.lines[0].tickets[0].fence'
`,

  evict: `holdfast evict: break a stuck holder

Usage
  holdfast evict NAME [--holder | --ticket ID | --all] [--json] [--store URL]

Options
  --holder             who holds it now (the default)
  --ticket ID          that one ticket; holdfast show NAME tells the ids
  --all                everyone, holders and waiters
  --json               one JSON document: {"name", "evicted": [...]}
${STORE}

The next in line gets the lock at once. The evicted holder learns it at its next renewal, or sooner: until
then both may work, so use it for holders that are stuck, or that check their fence. What was evicted under
holdfast run is killed when it learns it.

Exit status
  0 when something was evicted, 1 when there was nothing to evict, 64 and 69 as with run

Examples
  holdfast evict nightly-report
  holdfast evict nightly-report --all
`,

  top: `holdfast top: watch what is held and waited for

Usage
  holdfast top [PREFIX] [--every 1s] [--times N] [--json] [--store URL]

Options
  --every DURATION     how often to look (default 1s, at least 100ms)
  --times N            end after so many looks (default: go on until q or Ctrl-C)
  --json               JSON lines: one document a look, {"at", "lines": [...]}, lines as in ls
${STORE}

On a terminal it redraws the screen; in a pipe it prints one table a look.

Examples
  holdfast top
  holdfast top invoice: --every 5s
  holdfast top --json --times 1
`,

  migrate: `holdfast migrate: make the tables of a database store, or print them

Usage
  holdfast migrate [--print] [--store URL]

Options
  --print              write the SQL to stdout and touch nothing: for teams whose application user may
                       not create tables; the rights that such a user needs are at the end of it
  --json               with --print: the SQL as one JSON value
${STORE}

Tables are made on first use where that is allowed, so most never need this. It may run again at any time,
and from many processes at once.

Examples
  holdfast migrate --store postgres://owner@db/app
  holdfast migrate --print --store postgres://db/app | psql -U owner app
`,

  lab: `holdfast lab: see what locks do when something goes wrong

Usage
  holdfast lab [RECIPE...] [--situation NAME]... [--seed N] [--jobs N] [--out DIR]
  holdfast lab --list

Options
  --situation NAME     only this one; may be given several times
  --seed N             play it again as it was played with this seed (default 1)
  --jobs N             how many cells to play at once (default 4)
  --out DIR            where to write report.html and summary.svg (default lab-out)
  --list               the names of the recipes and situations
  -h, --help           this text

A RECIPE is a name, the beginning of one (redis, holdfast), or a store. All, when none is given.
It starts the stores' own servers on free loopback ports, and stops them.

Exit status
  0 when every verdict is what the literature and Holdfast's guarantees let one expect, 1 otherwise, 64 as with run

Examples
  holdfast lab redis-set-nx-px-blind-del holdfast-redis
  holdfast lab holdfast --situation holder-paused
  holdfast lab
`,
}
