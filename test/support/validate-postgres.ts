/**
 * PostgreSQL as the reference for VALIDATE expressions: Headgate's additions as SQL functions in a separate schema, and
 * a function that evaluates one expression over many requests, catching the errors.
 */
import type { Client } from 'pg';
import { type CheckRequest } from '../../src/types/request.ts';

const setup = String.raw`
create schema crypt;
create extension pgcrypto schema crypt;
create schema whx;
create function whx.hash_name(name text) returns text language plpgsql immutable strict as $$
begin
  if lower(name) not in ('md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512') then
    raise sqlstate '22023';
  end if;
  return lower(name);
end $$;
create function whx.hmac(key bytea, data bytea, name text) returns bytea language plpgsql immutable strict as $$
begin
  if length(key) = 0 then raise sqlstate '22023'; end if;
  return crypt.hmac(data, key, whx.hash_name(name));
end $$;
create function whx.hmac(key text, data bytea, name text) returns bytea language sql immutable strict
  as $$ select whx.hmac(convert_to(key, 'UTF8'), data, name) $$;
create function whx.digest(data bytea, name text) returns bytea language sql immutable strict
  as $$ select crypt.digest(data, whx.hash_name(name)) $$;
create function whx.digest(data text, name text) returns bytea language sql immutable strict
  as $$ select crypt.digest(data, whx.hash_name(name)) $$;
create function whx.sha1(data bytea) returns bytea language sql immutable strict
  as $$ select crypt.digest(data, 'sha1') $$;
create function whx.secure_compare(a text, b text) returns boolean language sql immutable strict
  as $$ select a = b and a <> '' $$;
create function whx.secure_compare_any(a text, b text[]) returns boolean language sql immutable strict
  as $$ select case when a <> '' then a = any (b) when array_position(b, null) is null then false end $$;
create function whx.convert_to(a text, b name) returns bytea language sql immutable strict
  as $$ select pg_catalog.convert_to(a, b) $$;
create function whx.convert_from(a bytea, b name) returns text language sql immutable strict
  as $$ select pg_catalog.convert_from(a, b) $$;
create function whx.now() returns timestamptz language sql stable
  as $$ select current_setting('whx.now')::timestamptz $$;
create function whx.evaluate(expression text, requests jsonb) returns setof text language plpgsql as $$
declare
  request jsonb;
  result text;
begin
  for request in select * from jsonb_array_elements(requests) loop
    perform set_config('whx.now', request->>'now', true);
    begin
      execute 'select (' || expression || E'\n)::text from (select $1 as headers, $2 as s, $3 as k, $4 as data, $5 as method, $6 as path, $7 as query, $8 as url offset 0) as request'
        into result
        using request->'headers', request->>'s', request->>'k', decode(request->>'data', 'hex'), request->>'method', request->>'path', request->'query', request->>'url';
      return next coalesce('=' || result, 'null');
    exception when others then
      return next '!' || sqlstate || ' ' || sqlerrm;
    end;
  end loop;
end $$;
`;

/** A request, the secrets for its check, and what PostgreSQL gets of them. */
export interface Case {
  readonly request: CheckRequest;
  readonly secrets: ReadonlyMap<string, string>;
  readonly publicUrl: string | null;
  /** headers, query, path and url as the reference sees them. */
  readonly seen: {
    readonly headers: object;
    readonly query: object;
    readonly path: string;
    readonly url: string | null;
  };
}

export class Reference {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async open(client: Client): Promise<Reference> {
    await client.query(setup);
    await client.query(
      "set search_path = whx, pg_catalog; set timezone = 'UTC'; set jit = off; set plan_cache_mode = force_custom_plan",
    );
    return new Reference(client);
  }

  /** One answer per case: `null`, `=value`, or `!sqlstate message`. */
  async evaluate(expression: string, cases: readonly Case[]): Promise<string[]> {
    const requests = cases.map(({ request, secrets, seen }) => ({
      headers: seen.headers,
      s: secrets.get('s') ?? null,
      k: secrets.get('k') ?? null,
      data: request.body.toString('hex'),
      method: request.method,
      path: seen.path,
      query: seen.query,
      url: seen.url,
      now: new Date(request.arrivedAtMs).toISOString(),
    }));
    const { rows } = await this.#client.query<{ answer: string }>(
      'select * from whx.evaluate($1, $2) as answer',
      [expression, JSON.stringify(requests)],
    );
    return rows.map(({ answer }) => answer);
  }
}
