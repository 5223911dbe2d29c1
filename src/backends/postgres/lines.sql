-- What join, renew and leave share: the lock of a line, the removal of the dead, the call to the next.
--
-- A batch finds its rows by `t.line = ANY (ARRAY[q.line]) AND t.seat = ANY (ARRAY[… q …])`. With a plain `=` the
-- planner, which knows nothing of a young table, may as well read the whole of it for every batch and compare each row
-- with each item; this way the key is the only way in, whatever it believes.

-- The advisory lock of a line. Two lines with one key only wait for each other, they never mix.
CREATE OR REPLACE FUNCTION "@schema".line_key(line text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(line, 7210581) $$;

-- Locks lines in one order, so that two batches never wait for each other, until the transaction ends.
-- The lock is an advisory one and no row: it costs no write, and an idle line leaves nothing behind.
-- One that is held by a transaction that is stuck is given up after lock_timeout, and after the first such
-- the others are only tried: one stalled name costs a batch one time-out. Answers the keys not had.
CREATE OR REPLACE FUNCTION "@schema".lock_lines(lines text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  key bigint;
  stalled bigint[];
BEGIN
  FOR key IN SELECT DISTINCT "@schema".line_key(q.line) FROM unnest(lines) q(line) ORDER BY 1 LOOP
    IF NOT pg_try_advisory_xact_lock(key) THEN
      IF stalled IS NOT NULL THEN
        stalled := stalled || key;
      ELSE
        BEGIN
          PERFORM pg_advisory_xact_lock(key);
        EXCEPTION WHEN lock_not_available THEN
          stalled := ARRAY[key];
        END;
      END IF;
    END IF;
  END LOOP;
  RETURN stalled;
END
$$;

-- Removes tickets whose lease has ended. One that is locked is just being renewed: it is left alone, and goes on
-- counting. Nobody may be granted a place past a dead ticket that is not yet removed: its own renewal may be
-- under way and have seen it alive. Removing takes the row's lock, and that decides between the two.
CREATE OR REPLACE FUNCTION "@schema".drop_dead(lines text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  touched text[];
  vacated text[];
BEGIN
  WITH dead AS (
    DELETE FROM "@schema".ticket WHERE ctid = ANY (ARRAY(
      SELECT t.ctid FROM "@schema".ticket t
      WHERE t.line = ANY (lines) AND t.seat > 0 AND t.expires <= clock_timestamp()
      FOR UPDATE SKIP LOCKED
    )) RETURNING line
  )
  SELECT array_agg(DISTINCT dead.line) INTO touched FROM dead;
  WITH dead AS (
    UPDATE "@schema".ticket SET id = '', expires = clock_timestamp() WHERE ctid = ANY (ARRAY(
      SELECT t.ctid FROM "@schema".ticket t
      WHERE t.line = ANY (lines) AND t.seat = 0 AND t.id <> '' AND t.expires <= clock_timestamp()
      FOR UPDATE SKIP LOCKED
    )) RETURNING line
  )
  SELECT array_agg(dead.line) INTO vacated FROM dead;
  RETURN CASE WHEN touched IS NULL THEN vacated ELSE touched || vacated END;
END
$$;

-- Removes one ticket whose row the caller has locked or may wait for.
CREATE OR REPLACE FUNCTION "@schema".remove(of text, place bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF place = 0 THEN
    UPDATE "@schema".ticket SET id = '', expires = clock_timestamp() WHERE line = of AND seat = 0;
  ELSE
    DELETE FROM "@schema".ticket WHERE line = of AND seat = place;
  END IF;
END
$$;

-- The orders that the rule grants: the head of the line, with the dead that stand in it removed. Reads one ticket
-- more than it answers, however long the line is.
CREATE OR REPLACE FUNCTION "@schema".head_of(of text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  t record;
  total bigint := 0;
  head bigint[];
  dead boolean := false;
BEGIN
  FOR t IN SELECT ord, weight, capacity, expires FROM "@schema".ticket
    WHERE line = of AND id <> '' ORDER BY seat
  LOOP
    dead := t.expires <= clock_timestamp();
    total := total + t.weight;
    EXIT WHEN dead OR total > t.capacity;
    head := head || t.ord;
  END LOOP;
  IF dead AND "@schema".drop_dead(ARRAY[of]) IS NOT NULL THEN RETURN "@schema".head_of(of); END IF;
  RETURN head;
END
$$;

-- Tells the tickets that the rule now grants.
CREATE OR REPLACE FUNCTION "@schema".wake(of text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  head bigint[] := "@schema".head_of(of);
BEGIN
  PERFORM pg_notify(t.inbox, 'g' || t.id || ' ' || t.ord) FROM "@schema".ticket t
    WHERE t.line = of AND t.seat = ANY (0 || head) AND t.ord = ANY (head) AND t.id <> '' AND NOT t.granted
      AND t.inbox <> '';
END
$$;

-- Bounded work against what nobody comes back for: the dead, seats that were vacant for half a minute, tombstones.
-- At most once in 10 s over all clients; whatever is locked is left for the next time.
CREATE OR REPLACE FUNCTION "@schema".tidy(most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  removed integer;
  more integer;
BEGIN
  UPDATE "@schema".version SET tidied = clock_timestamp() WHERE ctid = ANY (ARRAY(
    SELECT v.ctid FROM "@schema".version v
    WHERE v.tidied NOT BETWEEN clock_timestamp() - interval '10 s' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED
  ));
  IF NOT FOUND THEN RETURN 0; END IF;
  DELETE FROM "@schema".ticket WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM "@schema".ticket t
    WHERE t.expires <= clock_timestamp() - CASE WHEN t.id = '' THEN interval '30 s' ELSE interval '0' END
    LIMIT most FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS removed = ROW_COUNT;
  DELETE FROM "@schema".tombstone WHERE ctid = ANY (ARRAY(
    SELECT b.ctid FROM "@schema".tombstone b WHERE b.until <= clock_timestamp() LIMIT most FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS more = ROW_COUNT;
  RETURN removed + more;
END
$$;
