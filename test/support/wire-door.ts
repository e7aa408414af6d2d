/**
 * A SQL door with a small rewriter of its own, in front of a real PostgreSQL: `FOO name` creates a table, `FOO PROC
 * name` creates it through a procedure of Headgate's schema, `BAD …` is refused at its second word, `WAIT name` waits
 * for `before`, and `BUG` throws.
 */
import type { Endpoint } from '../../src/engine/engine.ts';
import type { RewriteSql } from '../../src/ddl/rewrite.ts';
import type { Rewrite } from '../../src/types/sql.ts';
import type { TlsSource } from '../../src/access/tls-source.ts';
import { type Deferred, deferred } from '../../src/kit/promises.ts';
import { type Limits, limits } from '../../src/config/limits.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { SqlFailure } from '../../src/errors/refusals.ts';
import type { Passwords } from '../../src/wire/authenticate.ts';
import { openSqlDoor, type SqlDoor } from '../../src/wire/door.ts';

/** Statements are separated by plain semicolons; the tests have none in literals where it matters. */
function smallRewriter(before: (name: string) => Promise<void>): RewriteSql {
  return (sql) => {
    if (!/\b(FOO|BAD|WAIT|BUG)\b/.test(sql)) return null;
    let out = '';
    /** Offset in `out`, offset in `sql`, and length of text that was copied, or that a replacement stands for. */
    const spans: { to: number; from: number; length: number; copied: boolean }[] = [];
    const tags: (string | null)[] = [];
    let wait: string | null = null;
    let from = 0;
    for (const part of sql.split(';')) {
      const match = /^(\s*)(FOO PROC|FOO|BAD|WAIT|BUG) (.*)$/s.exec(part);
      const name = match?.[3] ?? '';
      if (match?.[2] === 'BUG') throw new Error('a bug in the rewriter');
      if (match?.[2] === 'BAD') {
        const position = from + match[1]!.length + 'BAD '.length + 1;
        return {
          kind: 'error',
          error: { sqlstate: '42601', message: `no "${name}"`, hint: 'a hint', position },
        };
      }
      const head =
        match === null
          ? null
          : match[2] === 'FOO PROC'
            ? 'call headgate.foo($foo$create table '
            : 'create table ';
      if (match === null || head === null) {
        spans.push({ to: out.length, from, length: part.length + 1, copied: true });
        out += `${part};`;
        if (part.trim() !== '') tags.push(null);
      } else {
        if (match[2] === 'WAIT') wait = name;
        const nameFrom = from + part.length - name.length;
        spans.push({ to: out.length, from: nameFrom, length: head.length, copied: false });
        out += head;
        spans.push({ to: out.length, from: nameFrom, length: name.length, copied: true });
        out += `${name}${match[2] === 'FOO PROC' ? ' (a int)$foo$)' : ' (a int)'};`;
        tags.push('CREATE_FOO');
      }
      from += part.length + 1;
    }
    const originalOffset = (offset: number): number => {
      const span = spans.findLast((s) => s.to <= offset)!;
      return span.copied ? Math.min(span.from + offset - span.to, sql.length) : span.from;
    };
    const name = wait;
    const rewrite: Rewrite = {
      kind: 'rewritten',
      sql: out,
      tags,
      originalOffset,
      before: name === null ? null : () => before(name),
    };
    return rewrite;
  };
}

export const fooProcedure = `create schema headgate;
  create procedure headgate.foo(text) language plpgsql as $$ begin execute $1; end $$`;

export interface TestDoor {
  readonly door: SqlDoor;
  readonly port: number;
  readonly seen: Observation[];
  /** Resolves with the first observation, past or future, that `wanted` accepts. */
  next(wanted: (observation: Observation) => boolean): Promise<Observation>;
  /** Resolves when `WAIT name` waits, with what lets it continue. */
  waiting(name: string): Promise<Deferred<void>>;
}

export async function openTestDoor(
  endpoint: Endpoint,
  options: {
    limits?: Partial<Limits>;
    unavailable?: () => string | null;
    serverConnections?: () => number;
    tls?: TlsSource;
    passwords?: Passwords;
  } = {},
): Promise<TestDoor> {
  const seen: Observation[] = [];
  const waiting = new Set<(observation: Observation) => void>();
  const waits = new Map<string, Deferred<Deferred<void>>>();
  const wait = (name: string): Deferred<Deferred<void>> => {
    const known = waits.get(name) ?? deferred<Deferred<void>>();
    waits.set(name, known);
    return known;
  };
  const door = await openSqlDoor({
    host: '127.0.0.1',
    port: 0,
    endpoint: () => endpoint,
    unavailable: options.unavailable ?? (() => null),
    serverConnections: options.serverConnections ?? (() => 0),
    tls: options.tls ?? null,
    passwords: options.passwords ?? null,
    rewrite: smallRewriter((name) => {
      if (name.startsWith('refused')) {
        return Promise.reject(new SqlFailure({ sqlstate: '0A000', message: 'not today', detail: 'because' }));
      }
      if (name.startsWith('at_once')) return Promise.resolve();
      const goesOn = deferred<void>();
      wait(name).resolve(goesOn);
      return goesOn.promise;
    }),
    observe: (observation) => {
      seen.push(observation);
      for (const tell of waiting) tell(observation);
    },
    limits: { ...limits, ...options.limits },
  });
  const next: TestDoor['next'] = (wanted) => {
    const past = seen.find(wanted);
    if (past !== undefined) return Promise.resolve(past);
    return new Promise((resolve) => {
      const tell = (observation: Observation): void => {
        if (!wanted(observation)) return;
        waiting.delete(tell);
        resolve(observation);
      };
      waiting.add(tell);
    });
  };
  return { door, port: door.address.port, seen, next, waiting: (name) => wait(name).promise };
}
