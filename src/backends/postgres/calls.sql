-- What clients call: one statement, one packet, one commit. A procedure, since only a procedure may put the
-- transaction right first: under a default of REPEATABLE READ or SERIALIZABLE the reads after the lock would see
-- what was there before it.

-- What our statements rely on, for this transaction alone: behind a pooler the session is not ours. On a connection
-- of our own the client sets the same for the session and says so in holdfast.session, which saves a few
-- microseconds a call. Plans are made once and search by the key, however small or large the table was when they
-- were made; and a commit reaches the disk, since a crash after synchronous_commit = off would give an order twice.
CREATE OR REPLACE FUNCTION "@schema".settle() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL plan_cache_mode = force_generic_plan;
  SET LOCAL jit = off;
  SET LOCAL enable_seqscan = off;
  SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off;
  SET LOCAL lock_timeout = '250ms';
  IF current_setting('synchronous_commit') = 'off' THEN SET LOCAL synchronous_commit = on; END IF;
END
$$;

CREATE OR REPLACE PROCEDURE "@schema".join_1(
  INOUT answer text,
  lines text[], slots integer[], ids text[], weights bigint[], capacities bigint[], waits boolean[],
  ttls bigint[], wait_ttls bigint[], holders text[], inbox text,
  groups integer[], takeovers text[], takeover_clients text[]
)
LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF coalesce(current_setting('holdfast.session', true), '') <> 'ready' THEN PERFORM "@schema".settle(); END IF;
  answer := "@schema".join_now(lines, slots, ids, weights, capacities, waits, ttls, wait_ttls, holders, inbox,
    groups, takeovers, takeover_clients);
END
$$;

CREATE OR REPLACE PROCEDURE "@schema".renew_1(
  INOUT answer text,
  lines text[], ids text[], handles text[], ords bigint[], ttls bigint[], wait_ttls bigint[],
  next_handles text[], next_holders text[], inbox text
)
LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF coalesce(current_setting('holdfast.session', true), '') <> 'ready' THEN PERFORM "@schema".settle(); END IF;
  answer := "@schema".renew_now(lines, ids, handles, ords, ttls, wait_ttls, next_handles, next_holders, inbox);
END
$$;

CREATE OR REPLACE PROCEDURE "@schema".leave_1(
  INOUT answer text,
  lines text[], slots integer[], ids text[], handles text[], ords bigint[], keeps bigint[], tombs bigint[]
)
LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF coalesce(current_setting('holdfast.session', true), '') <> 'ready' THEN PERFORM "@schema".settle(); END IF;
  answer := "@schema".leave_now(lines, slots, ids, handles, ords, keeps, tombs);
END
$$;
