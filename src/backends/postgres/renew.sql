-- Milliseconds until a time, for an answer: at least 1, and 1000 when it is not known.
CREATE OR REPLACE FUNCTION "@schema".ms_until(at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(greatest(1, ceil(extract(epoch FROM at - clock_timestamp()) * 1000)), 1000)::bigint
$$;

-- Keep alive, as a batch: see Backend.renew. Takes no line's lock and waits for no row: a ticket that another
-- transaction has locked answers `f` and is asked for again, so a renewal is never part of a deadlock.
-- Answers as join does, and `f` for a row that is busy.
CREATE OR REPLACE FUNCTION "@schema".renew_now(
  lines text[], ids text[], handles text[], ords bigint[], ttls bigint[], wait_ttls bigint[],
  -- NULL when no item has one.
  next_handles text[], next_holders text[], inbox text
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(ids);
  answers text[] := array_fill('x'::text, ARRAY[n]);
  waiting text[];
  heads bigint[];
  behind boolean := false;
  i integer;
  r record;
BEGIN
  IF ords IS NULL OR array_position(ords, NULL) IS NOT NULL THEN
    SELECT array_agg(coalesce(q.ord, (SELECT t.ord FROM "@schema".ticket t WHERE t.line = q.line AND t.id = q.id))
        ORDER BY q.i)
      INTO ords FROM unnest(lines, ids, ords) WITH ORDINALITY q(line, id, ord, i);
  END IF;

  FOR r IN
    WITH mine AS MATERIALIZED (
      SELECT t.ctid AS at, q.i, q.ttl, q.wait_ttl, q.next_handle, q.next_holder
      FROM unnest(lines, ids, handles, ords, ttls, wait_ttls, next_handles, next_holders) WITH ORDINALITY
        q(line, id, handle, ord, ttl, wait_ttl, next_handle, next_holder, i)
      JOIN "@schema".ticket t ON t.line = ANY (ARRAY[q.line]) AND t.seat = ANY (ARRAY[0, q.ord]) AND t.ord = q.ord
      WHERE t.id = q.id AND (t.handle = q.handle OR t.handle = q.next_handle)
        AND NOT t.departed AND t.expires > clock_timestamp()
      FOR NO KEY UPDATE OF t SKIP LOCKED
    )
    UPDATE "@schema".ticket t SET
      expires = clock_timestamp() + CASE WHEN t.granted THEN mine.ttl ELSE mine.wait_ttl END * interval '1 ms',
      handle = coalesce(mine.next_handle, t.handle),
      holder = coalesce(mine.next_holder, t.holder),
      inbox = CASE WHEN mine.next_holder IS NULL THEN t.inbox ELSE renew_now.inbox END
    FROM mine WHERE t.ctid = mine.at
    RETURNING mine.i, t.line, t.ord, t.granted
  LOOP
    IF r.granted THEN
      answers[r.i] := 'g' || r.ord;
    ELSE
      answers[r.i] := 'w';
      waiting := waiting || r.line;
    END IF;
  END LOOP;

  IF waiting IS NOT NULL THEN
    -- Without the line's lock, and right all the same: an order is drawn and committed under that lock, so whoever
    -- sees a ticket sees all that stand before it, and what stands before it can only leave.
    FOR r IN SELECT DISTINCT w.line FROM unnest(waiting) w(line) LOOP
      heads := heads || "@schema".head_of(r.line);
    END LOOP;
    FOR i IN 1..n LOOP
      CONTINUE WHEN answers[i] <> 'w';
      IF ords[i] = ANY (heads) THEN
        UPDATE "@schema".ticket t SET granted = true, expires = clock_timestamp() + ttls[i] * interval '1 ms'
          WHERE t.line = lines[i] AND t.seat IN (0, ords[i]) AND t.ord = ords[i];
        answers[i] := 'g' || ords[i];
      ELSE
        behind := true;
      END IF;
    END LOOP;
  END IF;

  IF behind THEN
    FOR r IN
      SELECT q.i, s.ord, s.ahead, CASE WHEN s.whole THEN s.last ELSE s.first END AS look
      FROM unnest(ords, lines, answers) WITH ORDINALITY q(ord, line, answer, i)
      JOIN (
        SELECT k.line, k.ord, k.weight = k.capacity AS whole, row_number() OVER w - 1 AS ahead,
          min(k.expires) OVER before AS first, max(k.expires) OVER before AS last
        FROM "@schema".ticket k WHERE k.line = ANY (waiting) AND k.id <> ''
        WINDOW w AS (PARTITION BY k.line ORDER BY k.seat),
          before AS (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      ) s ON s.line = q.line AND s.ord = q.ord
      WHERE q.answer = 'w'
    LOOP
      answers[r.i] := 'w' || r.ord || ',' || r.ahead || ',' || "@schema".ms_until(r.look);
    END LOOP;
  END IF;

  IF 'x' = ANY (answers) THEN
    FOR r IN
      SELECT q.i FROM unnest(lines, ids, handles, ords, next_handles, answers) WITH ORDINALITY
        q(line, id, handle, ord, next_handle, answer, i)
      JOIN "@schema".ticket t ON t.line = ANY (ARRAY[q.line]) AND t.seat = ANY (ARRAY[0, q.ord]) AND t.ord = q.ord
      WHERE q.answer = 'x' AND t.id = q.id AND (t.handle = q.handle OR t.handle = q.next_handle)
        AND NOT t.departed AND t.expires > clock_timestamp()
    LOOP
      answers[r.i] := 'f';
    END LOOP;
  END IF;
  RETURN array_to_string(answers, ' ');
END
$$;
