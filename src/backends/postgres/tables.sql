-- Holdfast, version 1 of its schema. Every statement may run again: ten processes that start at once end alike.
-- The tables, the order and the one number that says which version this is.

CREATE TABLE IF NOT EXISTS "@schema".ticket (
  -- 'mutex:NAME', 'rw:NAME', 'semaphore:NAME'. Compared by its bytes, so that every text is an identity of its own.
  line text COLLATE "C" NOT NULL,
  -- 0 for whoever comes to an empty line, and that row stays, vacant, for the next who does: an update in place
  -- where an insert and a delete would leave garbage. Those who come behind somebody sit at their order. So the
  -- seats of a line are in the order of its tickets.
  seat bigint NOT NULL,
  ord bigint NOT NULL,
  -- Empty: the seat is vacant, since `expires`.
  id text COLLATE "C" NOT NULL,
  handle text COLLATE "C" NOT NULL,
  weight bigint NOT NULL,
  capacity bigint NOT NULL,
  -- Known to be granted: written by the ticket's own join or renewal, never by another ticket's call.
  granted boolean NOT NULL,
  -- Left, but kept in the line for a while to keep others out (minHold).
  departed boolean NOT NULL DEFAULT false,
  joined timestamptz NOT NULL,
  expires timestamptz NOT NULL,
  -- The channel on which its client listens; empty when it polls.
  inbox text COLLATE "C" NOT NULL,
  -- Who stands there, as JSON text: shown to people, and compared by a takeover.
  holder text COLLATE "C" NOT NULL,
  -- The only index, and none of its columns ever changes: every update stays in its page (HOT).
  PRIMARY KEY (line, seat)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

-- A join of one of these ids comes too late: its ticket was left while the join was under way.
CREATE TABLE IF NOT EXISTS "@schema".tombstone (
  id text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- CACHE 1: a connection that keeps numbers in stock would give them out of order.
CREATE SEQUENCE IF NOT EXISTS "@schema".ord AS bigint CACHE 1;

-- Session mode: what people see of tickets whose locks only the server's memory knows. It may be lost with them.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema".session_ticket (
  id text COLLATE "C" PRIMARY KEY,
  line text COLLATE "C" NOT NULL,
  ord bigint NOT NULL,
  granted boolean NOT NULL,
  weight bigint NOT NULL,
  capacity bigint NOT NULL,
  holder text COLLATE "C" NOT NULL,
  inbox text COLLATE "C" NOT NULL,
  pid integer NOT NULL,
  joined timestamptz NOT NULL DEFAULT clock_timestamp(),
  written timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The newest fence that was seen for a resource; see fenceGuard.
CREATE TABLE IF NOT EXISTS "@schema".fence (
  resource text COLLATE "C" PRIMARY KEY,
  newest bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS "@schema".version (
  version integer NOT NULL,
  tidied timestamptz NOT NULL
) WITH (fillfactor = 10);

INSERT INTO "@schema".version (version, tidied)
  SELECT 1, clock_timestamp() WHERE NOT EXISTS (SELECT FROM "@schema".version);
