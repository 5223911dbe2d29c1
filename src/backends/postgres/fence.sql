-- Called first in the application's own transaction: fails it when a newer fence was seen for the resource.
-- Otherwise it keeps the row's lock to the end of the transaction, so an older and a newer one never both pass.
CREATE OR REPLACE FUNCTION "@schema".fence_guard(of text, mine bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO "@schema".fence AS f (resource, newest) VALUES (of, mine)
    ON CONFLICT (resource) DO UPDATE SET newest = excluded.newest WHERE f.newest <= excluded.newest;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'fence % of "%" is too old: a newer one has written', mine, of
      USING ERRCODE = 'HF001', HINT = 'The lock was lost before this write. Roll back.';
  END IF;
END
$$;
