-- Alerts that several Headgates see: each is told once, and its end once, when no Headgate sees it any more. For Headgate only.

-- A Headgate that sees something repeats that it does; one that has not done so for this long is considered gone.
CREATE OR REPLACE FUNCTION headgate.alert_sees(seen_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT seen_at > statement_timestamp() - interval '5 minutes'
$body$;

-- Whether it is this Headgate's turn to tell: no other has claimed it, or the one that had has not come back for a minute.
CREATE OR REPLACE FUNCTION headgate.alert_claimed(wanted text, me text) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  WITH claimed AS (
    UPDATE headgate.alert a SET teller = me, claimed_at = statement_timestamp()
    WHERE a.condition = wanted AND (a.teller IS NULL OR a.teller = me OR a.claimed_at < statement_timestamp() - interval '1 minute')
    RETURNING 1
  )
  SELECT EXISTS (SELECT FROM claimed)
$body$;

-- `given`: [{condition, firing, told, since, says}], as this Headgate sees it; `told`: the receiver knows it already. Returns what to do for each
-- condition: `tell` it, `told` already, or `wait` for another Headgate that is telling it, or still sees it.
CREATE OR REPLACE FUNCTION headgate.claim_alerts(me text, given jsonb) RETURNS TABLE (condition text, verdict text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  one record;
  known headgate.alert;
BEGIN
  DELETE FROM headgate.alert_seen s WHERE NOT headgate.alert_sees(s.seen_at);
  -- What was over before anybody was told.
  DELETE FROM headgate.alert a WHERE NOT a.told AND NOT headgate.alert_sees(a.claimed_at)
    AND NOT EXISTS (SELECT FROM headgate.alert_seen s WHERE s.condition = a.condition);
  -- In one order: two that claim at once wait for each other in turn.
  FOR one IN
    SELECT e.condition, e.firing, e.told, e.since, e.says
    FROM jsonb_to_recordset(given) AS e (condition text, firing boolean, told boolean, since timestamptz, says text) ORDER BY 1 LIMIT 1000
  LOOP
    condition := one.condition;
    IF one.firing THEN
      INSERT INTO headgate.alert (condition, since, says, told) SELECT one.condition, one.since, one.says, one.told
      WHERE (SELECT count(*) < 10000 FROM headgate.alert) ON CONFLICT DO NOTHING;
      SELECT a.* INTO known FROM headgate.alert a WHERE a.condition = one.condition FOR UPDATE;
      IF NOT FOUND THEN
        verdict := CASE WHEN one.told THEN 'told' ELSE 'tell' END;
      ELSIF known.told AND NOT one.told AND known.teller IS NOT NULL AND known.claimed_at > statement_timestamp() - interval '1 minute' THEN
        -- Somebody is telling that it is over.
        verdict := 'wait';
      ELSE
        INSERT INTO headgate.alert_seen (condition, teller, seen_at) VALUES (one.condition, me, statement_timestamp())
        ON CONFLICT ON CONSTRAINT alert_seen_pkey DO UPDATE SET seen_at = excluded.seen_at;
        IF one.told AND NOT known.told THEN
          UPDATE headgate.alert a SET told = true, teller = NULL WHERE a.condition = one.condition;
        END IF;
        verdict := CASE WHEN known.told OR one.told THEN 'told' WHEN headgate.alert_claimed(one.condition, me) THEN 'tell' ELSE 'wait' END;
      END IF;
    ELSE
      SELECT a.* INTO known FROM headgate.alert a WHERE a.condition = one.condition FOR UPDATE;
      IF NOT FOUND THEN
        verdict := 'told';
      ELSE
        DELETE FROM headgate.alert_seen s WHERE s.condition = one.condition AND s.teller = me;
        verdict := CASE WHEN NOT EXISTS (SELECT FROM headgate.alert_seen s WHERE s.condition = one.condition)
          AND headgate.alert_claimed(one.condition, me) THEN 'tell' ELSE 'wait' END;
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$body$;

-- The receiver has accepted what this Headgate had claimed.
CREATE OR REPLACE FUNCTION headgate.told_alerts(me text, given jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  WITH it AS (SELECT e.condition, e.firing FROM jsonb_to_recordset(given) AS e (condition text, firing boolean)),
  over AS (
    DELETE FROM headgate.alert a USING it WHERE a.condition = it.condition AND NOT it.firing AND a.teller = me
  )
  UPDATE headgate.alert a SET told = true, teller = NULL FROM it WHERE a.condition = it.condition AND it.firing AND a.teller = me
$body$;

-- Alerts that were told and that no Headgate still sees, so that none could tell their end.
CREATE OR REPLACE FUNCTION headgate.left_alerts() RETURNS TABLE (condition text, since timestamptz, says text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT a.condition, a.since, a.says FROM headgate.alert a
  WHERE a.told AND NOT EXISTS (SELECT FROM headgate.alert_seen s WHERE s.condition = a.condition AND headgate.alert_sees(s.seen_at))
  ORDER BY 1 LIMIT 1000
$body$;
