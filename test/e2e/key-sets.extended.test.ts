import assert from 'node:assert/strict';
import { once } from 'node:events';
import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';

test('jwt_verify checks tokens with the keys that their issuer publishes', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const keys: object[] = [{ ...(await exportJWK(publicKey)), kid: 'one' }];
  let calls = 0;
  const issuer = createServer((request, response) => {
    calls += 1;
    if (request.url === '/large') return response.end('x'.repeat(10_000_000));
    if (request.url === '/elsewhere') return response.writeHead(302, { location: '/jwks' }).end();
    if (request.url === '/away') return response.destroy();
    return response.end(JSON.stringify({ keys }));
  }).listen(0, '127.0.0.1');
  await once(issuer, 'listening');
  onEnd(t, 'issuer', () => void issuer.close());
  const base = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`;
  const headgate = await startHeadgate(t, { env: { HEADGATE_JWKS_HOSTS: base.slice('http://'.length) } });
  const client = await headgate.client(t);
  const create = (table: string, url: string) =>
    client.query(`CREATE TABLE ${table} (data JSONB) WITH (connector = 'webhook') VALIDATE AS
      jwt_verify(substr(headers->>'authorization', 8), jwks => '${url}', issuer => 'https://id', audience => 'me')->>'sub' = 'them'`);
  const token = (kid: string, aud = 'me', sub = 'them') =>
    new SignJWT({ sub })
      .setProtectedHeader({ alg: 'ES256', kid })
      .setIssuer('https://id')
      .setAudience(aud)
      .setExpirationTime('5 minutes')
      .sign(privateKey);
  const post = async (table: string, bearer: string) =>
    (await headgate.post(`dev/public/${table}`, '{}', { authorization: `Bearer ${bearer}` })).status;

  await create('events', `${base}/jwks`);
  const good = await token('one');
  assert.equal(await post('events', good), 200);
  assert.equal(await post('events', good), 200);
  for (const bad of [
    `${good}A`,
    await token('one', 'you'),
    await token('one', 'me', 'us'),
    await token('two'),
  ])
    assert.equal(await post('events', bad), 401);
  assert.equal(calls, 1);
  const { rows } = await client.query<{ value: string }>(
    `EXPLAIN VALIDATE events WITH (headers = '{"authorization": "Bearer ${good}"}')`,
  );
  assert.match(JSON.stringify(rows), /"accepted"/);

  const signing = generateKeyPairSync('rsa', { modulusLength: 2048 });
  keys.push({ ...signing.publicKey.export({ format: 'jwk' }), kid: 'rsa' });
  await client.query(`CREATE TABLE signed (data JSONB) WITH (connector = 'webhook') VALIDATE AS
    rsa_verify(jwks_key('${base}/signing', headers->>'x-key'), payload, decode(headers->>'x-signature', 'base64'), 'sha256')`);
  const sent = async (kid: string, body = '{"n":1}') => {
    const signature = sign('sha256', Buffer.from('{"n":1}'), signing.privateKey).toString('base64');
    const answer = await headgate.post('dev/public/signed', body, {
      'x-key': kid,
      'x-signature': signature,
    });
    return answer.status;
  };
  assert.deepEqual(
    [await sent('rsa'), await sent('rsa', '{"n":2}'), await sent('one'), await sent('two')],
    [200, 401, 401, 401],
  );
  await assert.rejects(
    client.query(`CREATE TABLE named (data JSONB) WITH (connector = 'webhook') VALIDATE AS
      rsa_verify(jwks_key(headers->>'x-keys', headers->>'x-key'), payload, decode(headers->>'x-signature', 'base64'), 'sha256')`),
    /jwks must be a constant in jwks_key/,
  );

  // A sender that gets 503 comes again.
  for (const table of ['large', 'elsewhere', 'away']) {
    await create(table, `${base}/${table}`);
    assert.equal(await post(table, good), 503, table);
  }
  await assert.rejects(
    create('private', 'https://169.254.169.254/jwks'),
    /HEADGATE_JWKS_HOSTS does not list it/,
  );
  await assert.rejects(
    client.query(`CREATE TABLE chosen (data JSONB) WITH (connector = 'webhook') VALIDATE AS
      jwt_verify(headers->>'a', jwks => headers->>'b', issuer => 'https://id', audience => 'me') IS NOT NULL`),
    /jwks must be a constant/,
  );
});
