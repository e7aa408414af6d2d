-- Refused requests, and keys that were ignored: retrying a request, and forgetting it.

-- Called by act() (actions.sql); `me` is the role that asks. Returns what can be said at once, NULL if there is no such request of a table that the role
-- owns; `waiting` if it will be retried. Who hears of it: listen() of catalog/notifications.ts, which tells `Rejects.retryAsked` of reject/rejected-requests.ts.
CREATE OR REPLACE FUNCTION headgate.do_retry(me oid, id bigint, force boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  request record;
BEGIN
  SELECT r.door, r.authenticated, r.retry_outcome, r.body_bytes, octet_length(r.body) AS kept_bytes INTO request
  FROM headgate.rejected_requests r JOIN pg_class c ON c.oid = r.relation
  WHERE r.id = do_retry.id AND pg_has_role(me, c.relowner, 'USAGE') FOR UPDATE OF r;
  IF NOT FOUND THEN
    RETURN NULL;
  ELSIF request.door = 'websocket' THEN
    RETURN 'not retried: the batches of a WebSocket come in an order that only its client can repeat';
  ELSIF request.kept_bytes IS NULL THEN
    RETURN 'not retried: its body was not read';
  ELSIF request.kept_bytes < request.body_bytes THEN
    RETURN format('not retried: only %s of %s bytes of its body were kept', request.kept_bytes, request.body_bytes);
  ELSIF request.retry_outcome = 'waiting' THEN
    RETURN 'waiting already';
  ELSIF NOT force AND NOT request.authenticated THEN
    RETURN 'not retried: VALIDATE did not accept it, and its signature was not kept; force => true stores it unchecked';
  ELSIF NOT force AND request.retry_outcome = 'committed' THEN
    RETURN 'not retried: it was retried before and is stored; force => true stores it once more';
  ELSIF NOT force AND request.retry_outcome IN ('running', 'unknown') THEN
    RETURN 'not retried: it was retried before and may be stored; force => true tries once more';
  END IF;
  UPDATE headgate.rejected_requests r SET
    retry_asked_at = now(), retry_forced = force, retried_at = NULL, retry_outcome = 'waiting', retry_reason = NULL
  WHERE r.id = do_retry.id;
  PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'rejected';
  RETURN 'waiting: column retry_outcome of headgate.rejected_requests tells, within seconds';
END
$body$;

-- Asks Headgate to run a refused request through its stages again, once the caller's transaction has committed. The
-- outcome is then in its row: a function cannot wait for what begins after it has ended. ask() (actions.sql) calls do_retry() of this file, as the
-- catalog's owner, and leaves what that returns in headgate.answer.
CREATE OR REPLACE FUNCTION headgate.retry_rejected(id bigint, force boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  CALL headgate.ask('retry', jsonb_build_object('id', id, 'force', coalesce(force, false)));
  -- Said here, so that its context is this function alone.
  IF current_setting('headgate.answer') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('there is no rejected request %s of a table that you own', id),
      HINT = 'Whoever may look at it does not retry it, and old ones are forgotten.';
  END IF;
  RETURN current_setting('headgate.answer');
END
$body$;

-- True: it is deleted. As with retry_rejected(), one of another owner is none.
CREATE OR REPLACE FUNCTION headgate.forget_rejected(id bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  CALL headgate.ask('forget', jsonb_build_object('id', id));
  IF NOT current_setting('headgate.answer')::boolean THEN
    RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('there is no rejected request %s of a table that you own', id),
      HINT = 'Whoever may look at it does not delete it, and old ones are forgotten.';
  END IF;
  RETURN true;
END
$body$;

-- Starts over for a table. True: there was something to forget.
CREATE OR REPLACE FUNCTION headgate.forget_ignored_keys(relation regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  CALL headgate.ask('forget ignored keys', jsonb_build_object('relation', relation::oid::bigint));
  RETURN current_setting('headgate.answer')::boolean;
END
$body$;
