-- Release or give up, as a batch: see Backend.leave. Takes the lines' locks: a leave that did not would miss
-- a join that is still waiting for its line, and would not tell one that is just taking its place.
-- Answers one letter an item: t stood and is gone · x was not there · f stalled.
CREATE OR REPLACE FUNCTION "@schema".leave_now(
  lines text[], slots integer[], ids text[], handles text[], ords bigint[],
  -- NULL when no item has one.
  keeps bigint[], tombs bigint[]
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(ids);
  stalled bigint[];
  answers text[] := array_fill('x'::text, ARRAY[n]);
  plain boolean := keeps IS NULL AND tombs IS NULL;
  done integer[];
  i integer;
  r record;
BEGIN
  stalled := "@schema".lock_lines(lines);
  IF stalled IS NOT NULL THEN
    FOR i IN 1..n LOOP
      IF "@schema".line_key(lines[slots[i]]) = ANY (stalled) THEN answers[i] := 'f'; END IF;
    END LOOP;
  END IF;
  IF tombs IS NOT NULL THEN
    INSERT INTO "@schema".tombstone AS b (id, until)
      SELECT q.id, clock_timestamp() + max(q.tomb) * interval '1 ms'
      FROM unnest(ids, tombs, answers) q(id, tomb, answer) WHERE q.tomb > 0 AND q.answer <> 'f' GROUP BY q.id
      ON CONFLICT (id) DO UPDATE SET until = greatest(b.until, excluded.until);
  END IF;
  IF ords IS NULL OR array_position(ords, NULL) IS NOT NULL THEN
    SELECT array_agg(
        coalesce(q.ord, (SELECT t.ord FROM "@schema".ticket t WHERE t.line = lines[q.slot] AND t.id = q.id))
        ORDER BY q.i)
      INTO ords FROM unnest(slots, ids, ords) WITH ORDINALITY q(slot, id, ord, i);
  END IF;

  IF keeps IS NOT NULL THEN
    FOR r IN
      UPDATE "@schema".ticket t SET departed = true, expires = clock_timestamp() + q.keep * interval '1 ms'
      FROM unnest(slots, ids, handles, ords, keeps, answers) WITH ORDINALITY
        q(slot, id, handle, ord, keep, answer, i)
      WHERE t.line = ANY (ARRAY[lines[q.slot]]) AND t.seat = ANY (ARRAY[0, q.ord]) AND t.ord = q.ord AND t.id = q.id
        AND t.handle = coalesce(q.handle, t.handle)
        AND NOT t.departed AND t.expires > clock_timestamp() AND q.keep > 0 AND q.answer <> 'f'
      RETURNING q.i
    LOOP
      answers[r.i] := 't';
    END LOOP;
  END IF;

  IF plain AND stalled IS NULL AND array_position(handles, NULL) IS NULL THEN
    WITH gone AS (
      UPDATE "@schema".ticket t SET id = '', expires = clock_timestamp()
      FROM unnest(slots, ids, handles, ords) WITH ORDINALITY q(slot, id, handle, ord, i)
      WHERE t.line = ANY (ARRAY[lines[q.slot]]) AND t.seat = ANY (ARRAY[0 * q.ord]) AND t.ord = q.ord
        AND t.id = q.id AND t.handle = q.handle AND NOT t.departed AND t.expires > clock_timestamp()
      RETURNING q.i
    )
    SELECT array_agg(gone.i) INTO done FROM gone;
  END IF;
  IF cardinality(done) = n THEN
    answers := array_fill('t'::text, ARRAY[n]);
  ELSE
    FOREACH i IN ARRAY coalesce(done, ARRAY[]::integer[]) LOOP
      answers[i] := 't';
    END LOOP;
    FOR r IN
      SELECT q.i, t.line, t.seat, t.id, t.inbox, q.handle IS NULL AS evicted, t.expires > clock_timestamp() AS stood
      FROM unnest(slots, ids, handles, ords, keeps, answers) WITH ORDINALITY q(slot, id, handle, ord, keep, answer, i)
      JOIN "@schema".ticket t ON t.line = ANY (ARRAY[lines[q.slot]]) AND t.seat = ANY (ARRAY[0, q.ord]) AND t.ord = q.ord
      WHERE t.id = q.id AND t.handle = coalesce(q.handle, t.handle)
        AND (q.handle IS NULL OR NOT t.departed) AND coalesce(q.keep, 0) = 0 AND q.answer = 'x'
      FOR UPDATE OF t
    LOOP
      PERFORM "@schema".remove(r.line, r.seat);
      IF r.stood THEN answers[r.i] := 't'; END IF;
      IF r.evicted AND r.inbox <> '' THEN PERFORM pg_notify(r.inbox, 'x' || r.id); END IF;
    END LOOP;
  END IF;

  -- NOTIFY takes a lock of the whole server at commit: only a leave that somebody waits for pays for it.
  FOR r IN
    SELECT DISTINCT t.line FROM "@schema".ticket t WHERE t.line = ANY (lines) AND t.seat > 0 AND NOT t.granted
  LOOP
    PERFORM "@schema".wake(r.line);
  END LOOP;
  -- A release need not reach the disk before it is answered. Whoever joins or renews after it takes it to the disk
  -- along with his own; and if a crash forgets it, the ticket stands again until its lease ends, with all that were
  -- behind it still behind it. Who was told meanwhile that it is his turn keeps his own place: late, never two holders.
  IF plain THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN array_to_string(answers, ' ');
END
$$;
