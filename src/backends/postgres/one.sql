-- One ticket that comes or goes: most calls of a quiet client, and every hand-over of a busy line. Plain values and
-- one statement after the lock; whatever that does not settle is left to the batch.

CREATE OR REPLACE PROCEDURE "@schema".join_one_1(
  INOUT answer text,
  line text, id text, weight bigint, capacity bigint, wait boolean, ttl bigint, wait_ttl bigint, holder text, inbox text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF coalesce(current_setting('holdfast.session', true), '') <> 'ready' THEN PERFORM "@schema".settle(); END IF;
  -- Nobody is there.
  IF pg_try_advisory_xact_lock("@schema".line_key(line)) THEN
    UPDATE "@schema".ticket v SET ord = nextval('"@schema".ord'), id = join_one_1.id, handle = join_one_1.id,
        weight = join_one_1.weight, capacity = join_one_1.capacity, granted = true, departed = false,
        joined = clock_timestamp(), expires = clock_timestamp() + join_one_1.ttl * interval '1 ms',
        inbox = join_one_1.inbox, holder = join_one_1.holder
      WHERE v.line = join_one_1.line AND v.seat = 0 AND v.id = ''
        AND NOT EXISTS (SELECT FROM "@schema".ticket t WHERE t.line = join_one_1.line AND t.seat > 0)
        AND NOT EXISTS (SELECT FROM "@schema".tombstone b WHERE b.id = join_one_1.id)
      RETURNING 'g' || v.ord INTO answer;
    IF FOUND THEN RETURN; END IF;
  END IF;
  answer := "@schema".join_now(ARRAY[line], ARRAY[1], ARRAY[id], ARRAY[weight], ARRAY[capacity], ARRAY[wait],
    ARRAY[ttl], ARRAY[wait_ttl], ARRAY[holder], inbox, NULL, NULL, NULL);
END
$$;

CREATE OR REPLACE PROCEDURE "@schema".leave_one_1(INOUT answer text, line text, id text, handle text, ord bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF coalesce(current_setting('holdfast.session', true), '') <> 'ready' THEN PERFORM "@schema".settle(); END IF;
  IF pg_try_advisory_xact_lock("@schema".line_key(line)) THEN
    UPDATE "@schema".ticket t SET id = '', expires = clock_timestamp()
      WHERE t.line = leave_one_1.line AND t.seat = 0 AND t.ord = leave_one_1.ord
        AND t.id = leave_one_1.id AND t.handle = leave_one_1.handle
        AND NOT t.departed AND t.expires > clock_timestamp();
    IF NOT FOUND THEN
      DELETE FROM "@schema".ticket t
        WHERE t.line = leave_one_1.line AND t.seat = leave_one_1.ord
          AND t.id = leave_one_1.id AND t.handle = leave_one_1.handle
          AND NOT t.departed AND t.expires > clock_timestamp();
    END IF;
    IF FOUND THEN
      IF EXISTS (SELECT FROM "@schema".ticket t WHERE t.line = leave_one_1.line AND t.seat > 0) THEN
        PERFORM "@schema".wake(line);
      END IF;
      -- As at the end of leave_now: a release need not reach the disk before it is answered.
      PERFORM set_config('synchronous_commit', 'off', true);
      answer := 't';
      RETURN;
    END IF;
  END IF;
  answer := "@schema".leave_now(ARRAY[line], ARRAY[1], ARRAY[id], ARRAY[handle], ARRAY[ord], NULL, NULL);
END
$$;
