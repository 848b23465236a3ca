-- SPDX-License-Identifier: MIT
-- A consumer whose effects happen once, in PostgreSQL: one statement,
--
--     SELECT take(source, id, key, version, payload);
--
-- is one transaction with the effect and the mark that it was done; acknowledge
-- the message when it has returned.  Leave synchronous_commit on.

CREATE TABLE IF NOT EXISTS seen(
  source text NOT NULL, id text NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (source, id));
CREATE TABLE IF NOT EXISTS key_version(
  source text NOT NULL, key text NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (source, key));
CREATE TABLE IF NOT EXISTS reading(key text, payload bytea NOT NULL);

-- Yours goes here: whatever it writes happens once.
CREATE OR REPLACE FUNCTION effect(key text, payload bytea)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO reading(key, payload) VALUES ($1, $2);
$$;

-- The highest version of each key so far; returns what is odd, or NULL.
CREATE OR REPLACE FUNCTION note_version(
  of_source text, of_key text, new_version bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  last bigint;
BEGIN
  SELECT version INTO last FROM key_version
    WHERE source = of_source AND key = of_key FOR UPDATE;
  IF of_key IS NOT NULL AND new_version IS NOT NULL THEN
    INSERT INTO key_version AS known VALUES (of_source, of_key, new_version)
      ON CONFLICT (source, key) DO UPDATE
      SET version = greatest(known.version, excluded.version);
  END IF;
  IF last IS NULL OR new_version = last + 1 THEN
    RETURN NULL;
  END IF;
  RETURN format('%s %s %s: after %s came %s',
    CASE WHEN new_version IS NULL THEN 'unversioned'
         WHEN new_version > last THEN 'gap'
         WHEN new_version = last THEN 'repeat'
         ELSE 'back' END,
    of_source, of_key, last, coalesce(new_version::text, 'none'));
END;
$$;

-- Returns what is worth telling ('duplicate ...', 'gap ...'), or NULL.
CREATE OR REPLACE FUNCTION take(
  of_source text, of_id text, of_key text, new_version bigint, payload bytea)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  -- the constraint decides, not a SELECT before; another session that takes
  -- the same event waits here until this one is through
  INSERT INTO seen(source, id) VALUES (of_source, of_id)
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN 'duplicate ' || of_id;
  END IF;
  PERFORM effect(of_key, payload);
  RETURN note_version(of_source, of_key, new_version);
END;
$$;
