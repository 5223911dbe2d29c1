-- The lines of one machine. Version 1 (PRAGMA user_version).

-- A line is the tickets that share `line` ('kind:name'), in the order of `ord`.
CREATE TABLE tickets (
  -- AUTOINCREMENT: never given twice, not even after the last ticket left.
  ord INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  line TEXT NOT NULL,
  weight INTEGER NOT NULL,
  capacity INTEGER NOT NULL,
  -- The lease: its length, and its end on the monotonic clock of one boot, both in milliseconds.
  ttl REAL NOT NULL,
  until REAL NOT NULL,
  clock TEXT NOT NULL,
  -- When it was made, on the clock of the boot that its client's inbox names.
  joined REAL NOT NULL,
  -- 0: nobody stood in the line when it joined, so it stands first for as long as it stands, and is found there.
  queued INTEGER NOT NULL,
  -- 1: released, and standing only to keep others out (minHold).
  left INTEGER NOT NULL DEFAULT 0,
  -- NULL: equal to the id, as it is until a handover.
  handle TEXT,
  -- Whose it is.
  client INTEGER NOT NULL,
  -- The ticket is dropped when all of these are gone. NULL: its client's process alone; '': none, only the lease counts.
  processes TEXT,
  -- For people who look, as JSON. NULL: as its client says.
  holder TEXT
);
-- Only where a line is long enough to be searched: the usual ticket is never in it, which saves a page a commit.
CREATE INDEX tickets_by_id ON tickets (id) WHERE queued = 1;
-- Every index entry ends with the rowid, so this is (line, ord).
CREATE INDEX tickets_by_line ON tickets (line);
INSERT INTO sqlite_sequence (name, seq) VALUES ('tickets', 0);

-- Who takes tickets: kept apart, so that a ticket is small, since every page that a commit touches is written whole.
CREATE TABLE clients (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  -- The file beside this database that wakes it; its name says which process it belongs to.
  inbox TEXT NOT NULL,
  -- JSON of owner, client, host and pid.
  holder TEXT NOT NULL
);

-- Ids that left while a join of theirs may still be under way.
CREATE TABLE tombstones (
  id TEXT PRIMARY KEY,
  ttl REAL NOT NULL,
  until REAL NOT NULL,
  clock TEXT NOT NULL
) WITHOUT ROWID;

-- 'boot': the boot that opened the file last.
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
