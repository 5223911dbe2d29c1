-- Stand in line, as a batch: see Backend.join. `lines` are the distinct lines, `slots` says which is whose.
-- Answers one word an item: gORD granted · wORD,AHEAD,LOOKMS waiting · r refused · x gone · f stalled.
CREATE OR REPLACE FUNCTION "@schema".join_now(
  lines text[], slots integer[], ids text[], weights bigint[], capacities bigint[], waits boolean[],
  ttls bigint[], wait_ttls bigint[], holders text[], inbox text,
  -- NULL when no item has one: a group's number an item; the start of the owner's, and of his own client's, holder.
  groups integer[], takeovers text[], takeover_clients text[]
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(ids);
  distinct_lines integer := cardinality(lines);
  stalled bigint[];
  ords bigint[];
  ok boolean[];
  answers text[];
  i integer;
  s integer;
  j integer;
  fits boolean;
  verdicts boolean[];
  buried boolean[];
  again integer[];
  touched text[];
  line_stalled boolean[];
  line_ahead integer[];
  line_total bigint[];
  line_open boolean[];
  line_first timestamptz[];
  line_last timestamptz[];
  stamp timestamptz;
  r record;
BEGIN
  stalled := "@schema".lock_lines(lines);
  -- Only now, in a statement after the locks: one that locked and read would see what was there before its wait.
  IF stalled IS NULL AND n = distinct_lines AND takeovers IS NULL
    AND NOT EXISTS (SELECT FROM "@schema".ticket t WHERE t.line = ANY (lines) AND t.id <> '')
    AND NOT EXISTS (SELECT FROM "@schema".tombstone b WHERE b.id = ANY (ids))
  THEN
    SELECT array_agg(nextval('"@schema".ord')) INTO ords FROM generate_series(1, n);
    UPDATE "@schema".ticket v SET ord = q.ord, id = q.id, handle = q.id,
        weight = q.weight, capacity = q.capacity, granted = true, departed = false, joined = clock_timestamp(),
        expires = clock_timestamp() + q.ttl * interval '1 ms', inbox = join_now.inbox, holder = q.holder
      FROM unnest(lines, ords, ids, weights, capacities, ttls, holders)
        q(line, ord, id, weight, capacity, ttl, holder)
      WHERE v.line = ANY (ARRAY[q.line]) AND v.seat = ANY (ARRAY[0 * q.ord]);
    GET DIAGNOSTICS j = ROW_COUNT;
    IF j < n THEN
      INSERT INTO "@schema".ticket
          (line, seat, ord, id, handle, weight, capacity, granted, joined, expires, inbox, holder)
        SELECT q.line, 0, q.ord, q.id, q.id, q.weight, q.capacity, true,
          clock_timestamp(), clock_timestamp() + q.ttl * interval '1 ms', join_now.inbox, q.holder
        FROM unnest(lines, ords, ids, weights, capacities, ttls, holders)
          q(line, ord, id, weight, capacity, ttl, holder)
        WHERE NOT EXISTS (SELECT FROM "@schema".ticket t
          WHERE t.line = ANY (ARRAY[q.line]) AND t.seat = ANY (ARRAY[0 * q.ord]));
    END IF;
    RETURN 'g' || array_to_string(ords, ' g');
  END IF;

  line_stalled := array_fill(false, ARRAY[distinct_lines]);
  IF stalled IS NOT NULL THEN
    FOR s IN 1..distinct_lines LOOP
      line_stalled[s] := "@schema".line_key(lines[s]) = ANY (stalled);
    END LOOP;
  END IF;

  touched := "@schema".drop_dead(lines);
  IF takeovers IS NOT NULL THEN
    FOR i IN 1..n LOOP
      CONTINUE WHEN takeovers[i] IS NULL OR line_stalled[slots[i]];
      -- Once: a copy of the join that arrives later must not drop who came after it.
      CONTINUE WHEN EXISTS (SELECT FROM "@schema".ticket t WHERE t.line = lines[slots[i]] AND t.id = ids[i])
        OR EXISTS (SELECT FROM "@schema".tombstone b WHERE b.id = ids[i] AND b.until > clock_timestamp());
      FOR r IN SELECT t.line, t.seat, t.id, t.inbox FROM "@schema".ticket t
        -- What was released already keeps others out on purpose (minHold): it stays.
        WHERE t.line = lines[slots[i]] AND t.id <> '' AND NOT t.departed
          AND starts_with(t.holder, takeovers[i]) AND NOT starts_with(t.holder, takeover_clients[i])
        FOR UPDATE
      LOOP
        PERFORM "@schema".remove(r.line, r.seat);
        touched := touched || r.line;
        IF r.inbox <> '' THEN PERFORM pg_notify(r.inbox, 'x' || r.id); END IF;
      END LOOP;
    END LOOP;
  END IF;

  line_ahead := array_fill(0, ARRAY[distinct_lines]);
  line_total := array_fill(0::bigint, ARRAY[distinct_lines]);
  line_open := array_fill(true, ARRAY[distinct_lines]);
  line_first := array_fill(NULL::timestamptz, ARRAY[distinct_lines]);
  line_last := line_first;
  FOR r IN
    SELECT q.slot, t.ahead, t.total, t.open, t.first, t.last
    FROM unnest(lines) WITH ORDINALITY q(line, slot)
    CROSS JOIN LATERAL (
      SELECT count(*)::integer AS ahead, sum(f.weight)::bigint AS total, bool_and(f.fits) AS open,
        min(f.expires) AS first, max(f.expires) AS last
      FROM (
        SELECT k.weight, k.expires, sum(k.weight) OVER (ORDER BY k.seat) <= k.capacity AS fits
        FROM "@schema".ticket k WHERE k.line = q.line AND k.id <> ''
      ) f
    ) t WHERE t.ahead > 0
  LOOP
    line_ahead[r.slot] := r.ahead;
    line_total[r.slot] := r.total;
    line_open[r.slot] := r.open;
    line_first[r.slot] := r.first;
    line_last[r.slot] := r.last;
  END LOOP;

  buried := array_fill(false, ARRAY[n]);
  FOR i IN SELECT q.i FROM unnest(ids) WITH ORDINALITY q(id, i) JOIN "@schema".tombstone b
    ON b.id = ANY (ARRAY[q.id]) WHERE b.until > clock_timestamp()
  LOOP
    buried[i] := true;
  END LOOP;
  answers := array_fill(NULL::text, ARRAY[n]);
  ords := array_fill(NULL::bigint, ARRAY[n]);
  ok := array_fill(false, ARRAY[n]);
  verdicts := array_fill(NULL::boolean, ARRAY[n]);
  SELECT array_agg(q.i) INTO again
    FROM unnest(ids, slots) WITH ORDINALITY q(id, slot, i)
    JOIN "@schema".ticket t ON t.line = ANY (ARRAY[lines[q.slot]]) AND t.id = q.id;

  FOR i IN 1..n LOOP
    s := slots[i];
    IF line_stalled[s] THEN
      answers[i] := 'f';
      CONTINUE;
    ELSIF buried[i] THEN
      answers[i] := 'x';
      CONTINUE;
    ELSIF i = ANY (again) THEN
      CONTINUE;
    END IF;
    fits := line_open[s] AND line_total[s] + weights[i] <= capacities[i];
    IF groups[i] IS NOT NULL THEN
      -- Decided once, at its first member: no group has two of one line, so its members do not change each other.
      IF verdicts[groups[i]] IS NULL THEN
        FOR j IN 1..n LOOP
          CONTINUE WHEN groups[j] IS DISTINCT FROM groups[i];
          fits := fits AND NOT line_stalled[slots[j]] AND NOT buried[j] AND (j = ANY (again)) IS NOT TRUE
            AND line_open[slots[j]] AND line_total[slots[j]] + weights[j] <= capacities[j];
        END LOOP;
        verdicts[groups[i]] := fits;
      END IF;
      fits := verdicts[groups[i]];
    END IF;
    IF NOT fits AND NOT waits[i] THEN
      answers[i] := 'r';
      CONTINUE;
    END IF;
    stamp := clock_timestamp();
    ords[i] := nextval('"@schema".ord');
    ok[i] := fits;
    IF fits THEN
      answers[i] := 'g' || ords[i];
      stamp := stamp + ttls[i] * interval '1 ms';
    ELSE
      -- A ticket that needs the whole capacity can only come in when all before it are gone.
      answers[i] := 'w' || ords[i] || ',' || line_ahead[s] || ',' || "@schema".ms_until(
        CASE WHEN weights[i] = capacities[i] THEN line_last[s] ELSE line_first[s] END);
      stamp := stamp + wait_ttls[i] * interval '1 ms';
    END IF;
    line_ahead[s] := line_ahead[s] + 1;
    line_total[s] := line_total[s] + weights[i];
    line_open[s] := fits;
    line_first[s] := least(line_first[s], stamp);
    line_last[s] := greatest(line_last[s], stamp);
  END LOOP;

  INSERT INTO "@schema".ticket
      (line, seat, ord, id, handle, weight, capacity, granted, joined, expires, inbox, holder)
    SELECT lines[q.slot], q.ord, q.ord, q.id, q.id, q.weight, q.capacity, q.ok,
      clock_timestamp(), clock_timestamp() + CASE WHEN q.ok THEN q.ttl ELSE q.wait_ttl END * interval '1 ms',
      join_now.inbox, q.holder
    FROM unnest(slots, ords, ids, weights, capacities, ok, ttls, wait_ttls, holders)
      q(slot, ord, id, weight, capacity, ok, ttl, wait_ttl, holder)
    WHERE q.ord IS NOT NULL;

  -- What stands already keeps its place: its lease starts anew, and the answer is that of a renewal.
  FOREACH i IN ARRAY coalesce(again, ARRAY[]::integer[]) LOOP
    CONTINUE WHEN answers[i] IS NOT NULL;
    answers[i] := "@schema".renew_now(ARRAY[lines[slots[i]]], ARRAY[ids[i]], ARRAY[ids[i]], NULL,
      ARRAY[ttls[i]], ARRAY[wait_ttls[i]], NULL, NULL, join_now.inbox);
  END LOOP;
  IF touched IS NOT NULL THEN
    PERFORM "@schema".wake(q.line) FROM (SELECT DISTINCT unnest(touched)) q(line);
  END IF;
  RETURN array_to_string(answers, ' ');
END
$$;
