/** The rooms that src/ddl uses, as small as its tests allow: readable seals, counted ids, a parser that knows a few words. */
import assert from 'node:assert/strict';
import { createRewriter } from '../../src/ddl/rewrite.ts';
import type { DdlContext, ParsedCheck } from '../../src/ddl/statement-context.ts';
import type { SqlSession } from '../../src/types/sql.ts';

export const utf8: SqlSession = {
  database: 'dev',
  user: 'root',
  standardConformingStrings: true,
  clientEncoding: 'UTF8',
};

/** A literal that begins with `key` is a secret; `nope` is refused with its position. */
function parseExpression(text: string): ParsedCheck {
  const position = text.indexOf('nope');
  if (position >= 0) {
    throw Object.assign(new Error('function nope() is not known'), {
      sqlstate: '42883',
      position,
      hint: 'Known: …',
    });
  }
  return {
    text,
    payloadName: /\b(?:data|payload|body|other)\b/.exec(text)?.[0] ?? null,
    headersRead: [],
    readsAllHeaders: false,
    secretLiterals: [...text.matchAll(/'key[^']*'/g)].map((it) => ({
      start: it.index,
      end: it.index + it[0].length,
    })),
    readsBodyAlone: /\bdata\b/.test(text) && !/\b(?:query|url)\b/.test(text),
    notices: [],
    warnings: text.includes('X-Upper') ? ['header "X-Upper" can never match'] : [],
  };
}

export interface TestDeps extends DdlContext {
  /** Calls, in order. */
  readonly calls: string[];
  /** What was sealed: identity and text. */
  readonly sealed: { readonly identity: string; readonly plaintext: string }[];
}

export function testRooms(): TestDeps {
  const calls: string[] = [];
  const sealed: TestDeps['sealed'] = [];
  let ids = 0;
  return {
    calls,
    sealed,
    hasKey: true,
    firstLook: async () => undefined,
    ensureCatalog: async (database) => void calls.push(`ensure ${database}`),
    releaseDatabase: async (_, { database, mayStay }) => void calls.push(`release ${database}, ${mayStay}`),
    now: () => 0,
    spool: async () => ({ 4711: { state: 'spooling', requests: 3, since: 1, reason: 'déjà' } }),
    endpoints: async () => ({ base: 'http://h', tables: { 4711: { sender: 'github', check: 'signature' } } }),
    former: () => Promise.resolve({}),
    seal(plaintext, identity) {
      sealed.push({ identity, plaintext });
      return Buffer.from(`seal ${sealed.length}`).toString('base64');
    },
    newId: () => `00000000-0000-4000-8000-${String(++ids).padStart(12, '0')}`,
    parseExpression,
    parseAnswer: (text) => {
      const parts = [text.when, text.body, ...text.headers.map(({ value }) => value)];
      const part = text.body?.includes('nope') === true ? 'body' : 'when';
      if (parts.some((it) => it?.includes('nope')))
        throw Object.assign(new Error('function nope() is not known'), {
          sqlstate: '42883',
          part,
          position: (text[part] ?? '').indexOf('nope'),
        });
      const all = parts.join(' ');
      return {
        payloadName: /\b(?:data|payload|other)\b/.exec(all)?.[0] ?? null,
        secretsRead: [...all.matchAll(/\bsec_\w+/g)].map(([name]) => name),
        secretsShown: [],
        secretLiterals: new Map([['when', parseExpression(text.when ?? '').secretLiterals]]),
      };
    },
    guards: async ({ schema, table }) => {
      calls.push(`guards ${schema}.${table}`);
      return [];
    },
    publicUrl: null,
    candidate: async ({ expression, secrets }) => ({
      check: () => true,
      secrets: new Map(secrets.map(({ alias }) => [alias, expression])),
      readNow: new Set(),
    }),
    demandsOf: () => ({ form: null, cautions: [], changed: null }),
    sendsElsewhere: true,
    async explain({ schema, table, request }) {
      calls.push(
        `explain ${schema}.${table} ${JSON.stringify({ ...request, body: request.body.toString() })}`,
      );
      return [{ oid: 1, accepted: false, reason: "it's 5 ☃", steps: [{ expression: 'a', value: '$hg$' }] }];
    },
  };
}

export const toBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
export const fromBytes = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('utf8');

/** `marked`: a statement with ¶ at the position that the error must report. */
export function assertRefused(marked: string, sqlstate: string, message: RegExp): void {
  const result = createRewriter(testRooms())(toBytes(marked.replace('\u00b6', '')), utf8);
  assert.equal(result?.kind, 'error');
  assert.equal(result.error.sqlstate, sqlstate, result.error.message);
  assert.match(result.error.message, message);
  assert.equal(result.error.position, toBytes(marked).indexOf(toBytes('\u00b6')) + 1, result.error.message);
  assert.doesNotMatch(JSON.stringify(result), /top secret/);
}
