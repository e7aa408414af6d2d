/** Authorities that are malicious, or broken. */
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { suite, test } from 'node:test';
import type { OutgoingResponse, HttpExchange } from '../access/outgoing.ts';
import { limits } from '../config/limits.ts';
import { AcmeError, Authority, issue } from './authority.ts';
import { newKey } from './certificates.ts';

const base = 'https://authority.test/';
type Say = (
  path: string,
  payload: unknown,
  method: string,
) => Partial<Omit<OutgoingResponse, 'body'>> & { body?: unknown };

/** An authority of a few words; `say` says what differs. */
function stand(say: Say = () => ({})) {
  const asked: string[] = [];
  const signed: { protected: string; payload: string; signature: string }[] = [];
  const usual: Record<string, unknown> = {
    dir: { newNonce: `${base}nonce`, newAccount: `${base}account`, newOrder: `${base}order` },
    account: {},
    order: { status: 'pending', authorizations: [`${base}authz`], finalize: `${base}finalize` },
    authz: {
      status: 'pending',
      identifier: { type: 'dns', value: 'a.example.com' },
      challenges: [{ type: 'tls-alpn-01', url: `${base}challenge`, token: 'token-of-sixteen' }],
    },
    challenge: {},
  };
  const exchange: HttpExchange = async (url, { method, body }) => {
    const path = url.pathname.slice(1);
    asked.push(`${method} ${url.host} ${path}`);
    const jws = body === undefined ? null : (JSON.parse(body.text) as (typeof signed)[0]);
    if (jws !== null) signed.push(jws);
    const sent =
      jws === null || jws.payload === ''
        ? null
        : JSON.parse(Buffer.from(jws.payload, 'base64url').toString());
    const { status = 200, headers = {}, body: said = usual[path] ?? {} } = say(path, sent, method);
    return {
      status,
      headers: { 'replay-nonce': `n${asked.length}`, location: `${base}${path}`, ...headers },
      body: Buffer.isBuffer(said) ? said : Buffer.from(JSON.stringify(said)),
    };
  };
  const accountKey = newKey();
  const account = { directory: `${base}dir`, accountKey, contact: null, external: null };
  const open = (signal = AbortSignal.timeout(20_000)) => Authority.open(exchange, account, signal);
  const make = async (signal?: AbortSignal) =>
    issue({
      authority: await open(signal),
      domains: ['a.example.com'],
      challenge: 'tls-alpn-01',
      publish: async () => undefined,
      now: Date.now,
    });
  return { asked, signed, make, open, accountKey };
}

/** `{path: …}`: what differs, at one path. */
const at =
  (path: string, what: ReturnType<Say>): Say =>
  (asked) =>
    asked === path ? what : {};
const problem = (type: string, detail: string, status = 400) => ({
  status,
  body: { type: `urn:ietf:params:acme:error:${type}`, detail },
});

suite('the ACME client bounds its trust in an authority', () => {
  test('an ACME authority accepts signed requests, each with its own nonce', async () => {
    const { signed, open, accountKey, asked } = stand();
    const authority = await open();
    await authority.order(['a.example.com']);
    assert.deepEqual(asked, [
      'GET authority.test dir',
      'POST authority.test account',
      'POST authority.test order',
    ]);
    const heads = signed.map(
      (it) => JSON.parse(Buffer.from(it.protected, 'base64url').toString()) as Record<string, unknown>,
    );
    assert.deepEqual(
      heads.map(({ alg, nonce, url, kid }) => [alg, nonce, url, kid]),
      [
        ['ES256', 'n1', `${base}account`, undefined],
        ['ES256', 'n2', `${base}order`, `${base}account`],
      ],
    );
    const key = { key: createPublicKey(accountKey), dsaEncoding: 'ieee-p1363' } as const;
    for (const { protected: head, payload, signature } of signed)
      assert(verify('sha256', Buffer.from(`${head}.${payload}`), key, Buffer.from(signature, 'base64url')));
    assert.match(authority.authorization('t'), /^t\.[\w-]{43}$/);
  });

  test("an ACME client does not follow an authority's URL to another host", async () => {
    const elsewhere = 'https://127.0.0.1/x';
    for (const [path, body] of [
      ['dir', { newNonce: elsewhere, newAccount: elsewhere, newOrder: elsewhere }],
      ['dir', { newNonce: `${base}nonce`, newAccount: 'http://authority.test/account', newOrder: '' }],
      ['dir', { newNonce: `${base}nonce`, newAccount: 'https://authority.test:444/account', newOrder: '' }],
      ['order', { status: 'pending', authorizations: [elsewhere] }],
      ['order', { status: 'pending', authorizations: [{ toString: 1 }] }],
    ] as const) {
      const { make, asked } = stand(at(path, { body }));
      await assert.rejects(make(), AcmeError);
      assert(asked.every((it) => it.includes(' authority.test ')));
    }
  });

  test('an ACME client reports an invalid answer of the authority in one line', async () => {
    const cases: readonly (readonly [string, ReturnType<Say>, RegExp])[] = [
      ['dir', { body: Buffer.from('<html>') }, /no JSON object/],
      ['dir', { body: [] }, /no JSON object/],
      ['dir', { body: {} }, /no usable newAccount/],
      ['dir', { status: 302, headers: { location: 'https://elsewhere.test' } }, /refused: it answered 302/],
      ['dir', { body: { newAccount: 7 } }, /no usable newAccount/],
      ['account', { headers: { location: '' } }, /no usable location/],
      ['account', { headers: { location: 'x'.repeat(5_000) } }, /no usable location/],
      [
        'account',
        problem('userActionRequired', 'new\n\u001b[31mterms', 403),
        /refused: userActionRequired: new \[31mterms$/,
      ],
      ['account', problem('x'.repeat(9_000), '', 403), /^the authority refused: x{1,300}$/],
      ['order', { body: { authorizations: [] } }, /asks for other domains/],
      [
        'order',
        { body: { authorizations: Array.from({ length: 9 }, () => `${base}authz`) } },
        /asks for other domains/,
      ],
      [
        'authz',
        { body: { status: 'pending', identifier: { value: 'b.example.com' } } },
        /asks for other domains/,
      ],
      [
        'authz',
        { body: { status: 'pending', identifier: { value: 'a.example.com' }, challenges: [null, {}] } },
        /offers no tls-alpn-01/,
      ],
      [
        'authz',
        {
          body: {
            status: 'pending',
            identifier: { value: 'a.example.com' },
            challenges: [{ type: 'tls-alpn-01', url: base, token: '../../etc/passwd/..' }],
          },
        },
        /no usable token/,
      ],
      ['challenge', problem('malformed', 'no'), /refused: malformed: no/],
    ];
    for (const [path, what, expected] of cases) {
      const { make } = stand(at(path, what));
      await assert.rejects(make(), (error: Error) => {
        assert(error instanceof AcmeError, `${path}: ${error.stack}`);
        assert.match(error.message, expected);
        assert.match(error.message, /^[\x20-\x7e]{1,400}$/);
        return true;
      });
    }
  });

  test('an ACME authority that rejects nonces, never decides or sends a false certificate costs a bounded number of requests', async () => {
    const never = stand(at('account', problem('badNonce', 'no')));
    await assert.rejects(never.make(), /badNonce/);
    assert.equal(never.asked.length, 1 + limits.acmeNoncesMax);

    const pending = stand();
    const over = AbortSignal.timeout(1_500);
    await assert.rejects(pending.make(over), /took too long/);
    assert(pending.asked.length < 12);

    const wrong = stand((path) => {
      if (path === 'authz') return { body: { status: 'valid', identifier: { value: 'a.example.com' } } };
      const order = {
        authorizations: [`${base}authz`],
        finalize: `${base}finalize`,
        certificate: `${base}cert`,
      };
      if (path === 'order') return { body: { ...order, status: 'valid' } };
      return path === 'cert'
        ? { body: Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----') }
        : {};
    });
    await assert.rejects(wrong.make(), /gave nothing usable: what came is no certificate/);
  });

  test('an ACME client honours the Retry-After of the authority', async () => {
    const busy = { ...problem('rateLimited', 'too many', 429), headers: { 'retry-after': '90' } };
    await assert.rejects(stand(at('order', busy)).make(), { name: 'AcmeError', retryMs: 90_000 });
  });
});
