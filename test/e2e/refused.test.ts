/** Signatures that are almost right: each is refused with 401, stores nothing, and leaves the next request unharmed. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { onEnd } from '../support/cleanup.ts';
import { RawClient, post } from '../support/raw-http.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';

const secret = "It's a Secret to Everybody";
const body = '{"zen": "Keep it logically awesome."}';
const mac = (text: string, key = secret): string => createHmac('sha256', key).update(text).digest('hex');

/** Header lines of one request; several of one name are sent as several lines. */
type Lines = readonly (readonly [string, string])[];
interface Attempt {
  readonly lines: Lines;
  readonly body?: string;
  /** 431 where the listener does not even read that far. */
  readonly status?: number;
}

interface Scheme {
  readonly table: string;
  readonly check: string;
  readonly signature: string;
  /** What stands in front of the digest. */
  readonly prefix: string;
  readonly sign: (text: string, key?: string, at?: number | string) => Lines;
}

const seconds = (): number => Math.floor(Date.now() / 1000);
const github: Scheme = {
  table: 'github',
  check: `secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`,
  signature: 'x-hub-signature-256',
  prefix: 'sha256=',
  sign: (text, key) => [['x-hub-signature-256', `sha256=${mac(text, key)}`]],
};
const timestamped: Scheme = {
  table: 'timestamped',
  check: `secure_compare(headers->>'x-signature', 'v0=' || encode(hmac(s,
      convert_to('v0:' || (headers->>'x-request-timestamp') || ':', 'UTF8') || data, 'sha256'), 'hex'))
    AND abs(extract(epoch from now()) - (headers->>'x-request-timestamp')::bigint) <= 300`,
  signature: 'x-signature',
  prefix: 'v0=',
  sign: (text, key, at = seconds()) => [
    ['x-signature', `v0=${mac(`v0:${at}:${text}`, key)}`],
    ['x-request-timestamp', String(at)],
  ],
};

function attempts({ sign, signature, prefix }: Scheme): Record<string, Attempt> {
  const good = sign(body);
  const changed = (change: (value: string) => string): Attempt => ({
    lines: good.map(([name, value]) => [name, name === signature ? change(value) : value]),
  });
  const flip = (hex: string): string => (hex === '0' ? '1' : '0');
  return {
    'wrong secret': { lines: sign(body, 'another secret') },
    'empty secret': { lines: sign(body, '') },
    'a byte of the body changed': { lines: good, body: body.replace('K', 'k') },
    'a space behind the body': { lines: good, body: `${body} ` },
    'an empty body': { lines: good, body: '' },
    'no signature': { lines: good.filter(([name]) => name !== signature) },
    'no header at all': { lines: [] },
    'an empty signature': changed(() => ''),
    'the prefix only': changed(() => prefix),
    'the digest without its prefix': changed((value) => value.slice(prefix.length)),
    'first byte wrong': changed((v) => prefix + flip(v.charAt(prefix.length)) + v.slice(prefix.length + 1)),
    'last byte wrong': changed((value) => value.slice(0, -1) + flip(value.slice(-1))),
    'cut short by one': changed((value) => value.slice(0, -1)),
    'cut in half': changed((value) => value.slice(0, value.length / 2)),
    'one character more': changed((value) => `${value}0`),
    'in upper case': changed((value) => value.toUpperCase()),
    'twice in one line': changed((value) => `${value}, ${value}`),
    'bytes that are no UTF-8': changed(() => '\xff\xfe'),
    'a signature of 12 KiB': changed((value) => value.repeat(200).slice(0, 12 * 1024)),
    'a signature larger than headers may be': {
      ...changed((value) => value.padEnd(limits.headersBytesMax + 1, '0')),
      status: 431,
    },
    'the header twice': { lines: [...good, ...good.filter(([name]) => name === signature)] },
    'the header twice, the first one wrong': {
      lines: [[signature.toUpperCase(), `${prefix}00`], ...good],
    },
  };
}

function clockAttempts({ sign }: Scheme): Record<string, Attempt> {
  const at = (time: number | string): Attempt => ({ lines: sign(body, secret, time) });
  return {
    'an old timestamp, well signed': at(seconds() - 310),
    'a timestamp of the future, well signed': at(seconds() + 310),
    'no number, well signed': at('now'),
    'an overlong number, well signed': at('9'.repeat(4000)),
    'a negative number, well signed': at('-1'),
    'an empty timestamp, well signed': at(''),
    'the timestamp changed': {
      lines: sign(body).map(([name, v]) => [
        name,
        name === 'x-request-timestamp' ? String(seconds() - 1) : v,
      ]),
    },
    'the timestamp missing': { lines: sign(body).slice(0, 1) },
    'the timestamp twice': { lines: [...sign(body), ...sign(body).slice(1)] },
  };
}

const shared = sharedHeadgate();

for (const scheme of [github, timestamped]) {
  test(`almost correct signatures of table ${scheme.table} are refused, and the next request is served`, async (t) => {
    t.diagnostic(sampleSeed);
    const headgate = await shared();
    const client = await headgate.client(t);
    const { table, check } = scheme;
    await client.query(`CREATE SECRET IF NOT EXISTS s WITH (backend = 'meta') AS '${secret.replace("'", "''")}';
      CREATE TABLE ${table} (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS ${check}`);
    const { port } = headgate.ports.listen;
    const path = `/webhook/dev/public/${table}`;
    let connection = await RawClient.connect(port);
    onEnd(t, 'connection', () => connection.destroy());
    const send = async (lines: Lines, sent: string) => {
      connection.send(post(path, sent, lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')));
      const answer = await connection.answer();
      assert(answer !== null);
      return answer;
    };
    const all =
      scheme === github
        ? Object.entries(attempts(scheme))
        : [...Object.entries(clockAttempts(scheme)), ...sampleOf(Object.entries(attempts(scheme)), 4)];
    let stored = 0;
    for (const [name, { lines, body: sent = body, status = 401 }] of all) {
      const refused = await send(lines, sent);
      assert.equal(refused.status, status, `${name}: ${refused.body}`);
      if (status === 401) {
        const answer = '{"error":"Signature verification failed","code":"signature_failed"}';
        assert.equal(refused.body, answer, `${name}: every refusal reads the same`);
      }
      // On the same connection, unless the answer has ended it.
      if (/^connection: close/im.test(refused.head)) connection = await RawClient.connect(port);
      const next = await send(scheme.sign(body), body);
      assert.equal(next.body, '{"rows":1}', `behind ${name}`);
      stored++;
    }
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::int as n, count(distinct data)::int as distinct from ${table}`,
    );
    assert.deepEqual(rows, [{ n: stored, distinct: 1 }], 'what was refused is not stored');
    assert.equal(headgate.child.exitCode, null, 'the process lives');
  });
}
