/** SNS against a server on this machine that claims to be Amazon's, behind a resolver that lies; and every URL that is not the right one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { makeAuthority } from '../../test/support/certificates.ts';
import { ingestOf } from '../../test/support/ingest.ts';
import { targetOf } from '../../test/support/rows.ts';
import { createFetch, isPublicAddress, publicNetwork } from '../access/outgoing.ts';
import type { Fetch, Network } from '../access/outgoing.ts';
import { parseTopics, parseSubscriptions } from '../senders/sns-topics.ts';
import { expandSender, senders, signedRequest } from '../senders/senders.ts';
import type { CheckRequest } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Observation } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { compileCheck } from '../validate/compile.ts';
import { parseExpression, loadParser } from '../validate/expression.ts';
import { Sns, certificateUrl, subscribeUrl, validationUrl } from './sns.ts';

const host = 'sns.eu-west-1.amazonaws.com';
const arn = 'arn:aws:sns:eu-west-1:123456789012:orders';
const topics = parseTopics(arn) ?? assert.fail();
const topic = topics.get(arn) ?? assert.fail();
const certificatePath = '/SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem';
const token = '2336412f37fb687f5d51e6e2425e90ca';
const subscribe = (more = '') =>
  `https://${host}/?Action=ConfirmSubscription&TopicArn=${arn}&Token=${token}${more}`;
const confirmation = {
  Type: 'SubscriptionConfirmation',
  MessageId: '165545c9-2a5c-472c-8df2-7ff2be2b3b1b',
  Token: token,
  TopicArn: arn,
  Message: 'You have chosen to subscribe.',
  SubscribeURL: subscribe(),
  Timestamp: '2026-04-26T20:45:04.751Z',
  SignatureVersion: '2',
  SigningCertURL: `https://${host}${certificatePath}`,
};

suite('confirmations of SNS and Event Grid call the right URLs only', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-sns-'));
  const authority = makeAuthority(folder);
  const tls = authority.issue('amazon', host, { names: `DNS:${host}` });
  const read = (path: string) => readFileSync(path, 'utf8');
  /** Signed by itself, good from that moment on. */
  const rsa = (name: string, from = '20260101000000Z') => {
    const path = (file: string) => join(folder, `${name}.${file}`);
    writeFileSync(path('index'), '');
    writeFileSync(
      path('conf'),
      `[ca]\ndefault_ca = d\n[d]\ndatabase = ${path('index')}\nrand_serial = yes\nnew_certs_dir = ${folder}\ndefault_md = sha256\npolicy = p\n[p]\ncommonName = supplied\n`,
    );
    const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
    openssl(
      'req',
      '-new',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-subj',
      '/CN=sns',
      '-keyout',
      path('key'),
      '-out',
      path('csr'),
    );
    openssl('ca', '-batch', '-selfsign', '-notext', '-config', path('conf'), '-keyfile', path('key'), '-in', path('csr'), '-out', path('pem'), '-startdate', from, '-enddate', '20990101000000Z'); // prettier-ignore
    return { key: read(path('key')), cert: read(path('pem')) };
  };
  const asked: string[] = [];
  let answer: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  const server = createServer({ cert: read(tls.cert), key: read(tls.key) }, (request, response) => {
    asked.push(`${request.method} ${request.headers.host}${request.url}`);
    answer(request, response);
  });
  let lying: Network;
  let fetch: Fetch;
  before(async () => {
    await loadParser();
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    lying = {
      resolve: () => Promise.resolve(['127.0.0.1']),
      isAllowed: () => true,
      port: (of) => (of === '' || of === '553' ? port : null),
      ca: read(authority.cert),
    };
    fetch = createFetch(lying, limits);
  });
  after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  });

  /** A table with USING aws_sns whose secret is empty or this certificate, and what became of requests to it. */
  function stage(certificate = '') {
    const told: Observation[] = [];
    let kept = certificate;
    const target = (): Target => {
      const secrets = new Map([['c', kept]]);
      const expression = parseExpression(expandSender('aws_sns', 'c') ?? '', { secrets: ['c'] });
      const compiled = kept === '' ? null : compileCheck(expression, { secrets, publicUrl: null });
      const sns = {
        topics,
        secret: { name: 'c', sealId: createHash('md5').update(kept).digest('hex'), value: kept },
      };
      return targetOf({ check: compiled ?? 'unusable', sns });
    };
    let now = target();
    const keepCertificate = async (_: Target, pem: string) => {
      kept = pem;
      return true;
    };
    const context = {
      observe: (observation: Observation) => void told.push(observation),
      clock: () => 0,
      limits,
    };
    const allows = { sns: true, eventGrid: true };
    const sns = new Sns(allows, (url) => fetch(url), { keepCertificate }, context);
    const confirmed: (() => void)[] = [];
    const ingest = ingestOf(() => now, { refresh: async () => void (now = target()), sns });
    const post = async (message: Record<string, unknown>, key: string) => {
      const draft = {
        method: 'POST',
        url: 'http://h/',
        nowMs: 0,
        signingKey: key,
        id: '0'.repeat(32),
        body: Buffer.from(JSON.stringify(message)),
      };
      const { headers, body } = signedRequest(senders.get('aws_sns') ?? assert.fail(), draft);
      const request: CheckRequest = {
        method: 'POST',
        target: '/webhook/dev/public/t',
        rawHeaders: Object.entries(headers).flat(),
        arrivedAtMs: 0,
        body,
      };
      const arrival = { ...request, remoteAddress: '', body: () => Promise.resolve(body) };
      return ingest.submit(arrival).then(
        ({ kind }) => kind,
        (error: unknown) => (error instanceof Refused ? error.refusal.code : assert.fail(String(error))),
      );
    };
    return { post, told, sns, kept: () => kept, confirmed };
  }

  const until = async (done: () => boolean) => {
    while (!done()) await new Promise((resolve) => void setImmediate(resolve));
  };

  test('the first SNS message has its certificate fetched and kept, and its subscription confirmed', async () => {
    const { key, cert } = rsa('first');
    answer = (request, response) =>
      void response.end(request.url?.endsWith('.pem') === true ? cert : '<ok/>');
    asked.length = 0;
    const { post, told, kept } = stage();
    assert.equal(await post(confirmation, key), 'committed');
    assert.equal(kept(), cert);
    await until(() => told.length === 2);
    assert.deepEqual(
      told.map(({ kind }) => kind),
      ['sns.certificate', 'sns.confirmed'],
    );
    assert.deepEqual(asked, [
      `GET ${host}${certificatePath}`,
      `GET ${host}/?Action=ConfirmSubscription&TopicArn=${arn}&Token=${token}`,
    ]);
    const notification = { ...confirmation, Type: 'Notification', SubscribeURL: undefined, Token: undefined };
    assert.equal(await post(notification, key), 'committed');
    assert.equal(asked.length, 2);
    // A forged one is refused; the certificate that is fetched for it does not verify it.
    assert.equal(await post(notification, rsa('stranger').key), 'signature_failed');
    assert.equal(kept(), cert);
  });

  test('a newer SNS certificate replaces the kept one, and an older one does not', async () => {
    const [old, young] = [rsa('old', '20250101000000Z'), rsa('young', '20260201000000Z')];
    const { post, kept } = stage(old.cert);
    const notification = { ...confirmation, Type: 'Notification' };
    answer = (_, response) => void response.end(young.cert);
    assert.equal(await post(notification, young.key), 'committed');
    assert.equal(kept(), young.cert);
    answer = (_, response) => void response.end(old.cert);
    assert.equal(await post(notification, old.key), 'signature_failed');
    assert.equal(kept(), young.cert);
  });

  test('other SNS messages cause no outgoing request', async () => {
    const { key, cert } = rsa('calls');
    answer = (_, response) => void response.end(cert);
    asked.length = 0;
    const { post } = stage(rsa('another').cert);
    const others = [
      { TopicArn: arn.replace('orders', 'others') },
      { TopicArn: arn.replace('eu-west-1', 'us-east-1') },
      { TopicArn: [arn] },
      { SigningCertURL: `https://sns.us-east-1.amazonaws.com${certificatePath}` },
      { SigningCertURL: `http://${host}${certificatePath}` },
      { SigningCertURL: `https://${host}:8443${certificatePath}` },
      { SigningCertURL: `https://a@${host}${certificatePath}` },
      { SigningCertURL: `https://${host}.evil.example${certificatePath}` },
      { SigningCertURL: `https://evil.example/${host}${certificatePath}` },
      { SigningCertURL: `https://${host}\\@evil.example${certificatePath}` },
      { SigningCertURL: `https://${host}/../x${certificatePath}` },
      { SigningCertURL: `https://${host}${certificatePath}?a=1` },
      { SigningCertURL: `https://${host}${certificatePath}#a` },
      { SigningCertURL: undefined },
    ];
    for (const other of others)
      assert.equal(await post({ ...confirmation, ...other }, key), 'signature_failed', JSON.stringify(other));
    assert.deepEqual(asked, []);
    assert.equal(certificateUrl(confirmation, topic)?.href, confirmation.SigningCertURL);
  });

  test('an SNS confirmation with another URL is not opened', () => {
    assert.equal(subscribeUrl(confirmation, topic)?.href, subscribe());
    for (const url of [
      subscribe('&Token=b'),
      subscribe('&AuthenticateOnUnsubscribe=true'),
      subscribe('#a'),
      subscribe().replace('https:', 'http:'),
      subscribe().replace(host, `${host}:443`).replace(':443', ':444'),
      subscribe().replace(host, 'sns.us-east-1.amazonaws.com'),
      subscribe().replace(host, `u:p@${host}`),
      subscribe().replace('/?', '/x?'),
      subscribe().replace('ConfirmSubscription', 'Unsubscribe'),
      subscribe().replace('orders', 'others'),
      subscribe().replace(token, 'another'),
      `https://${host}/`,
      '',
      undefined,
    ])
      assert.equal(subscribeUrl({ ...confirmation, SubscribeURL: url }, topic), null, url);
    assert.equal(subscribeUrl({ ...confirmation, Token: undefined }, topic), null);
  });

  test('an unavailable SNS certificate gives a retryable refusal, and is fetched a bounded number of times', async () => {
    const { post, told } = stage();
    const { key } = rsa('away');
    answer = (_, response) => void response.writeHead(503).end();
    asked.length = 0;
    for (let i = 0; i < 8; i++) assert.equal(await post(confirmation, key), 'table_unusable');
    assert.equal(asked.length, limits.outgoingBurst);
    assert.equal(told.filter(({ kind }) => kind === 'sns.failed').length, limits.outgoingBurst);
  });

  test('an SNS certificate is fetched with bounds on size and time and without redirects', async () => {
    const url = new URL(confirmation.SigningCertURL);
    const fails = (message: RegExp, by: Fetch = fetch, of = url) => assert.rejects(by(of), { message });
    answer = (_, response) => void response.writeHead(302, { Location: `https://${host}/other` }).end();
    asked.length = 0;
    await fails(/it answered 302/);
    assert.equal(asked.length, 1);
    answer = (_, response) => void response.end(Buffer.alloc(limits.outgoingBytesMax + 1));
    await fails(/too large/);
    answer = (_, response) => void response.write('a');
    const hurried = { ...limits, outgoingMs: 200 };
    await fails(/took too long/, createFetch(lying, hurried));
    await fails(
      /not resolved in time/,
      createFetch({ ...lying, resolve: () => new Promise(() => {}) }, hurried),
    );
    await fails(/certificate|altnames/i, fetch, new URL(url.href.replace('eu-west-1', 'us-east-1')));
    await fails(/certificate|issuer/i, createFetch({ ...lying, ca: undefined }, limits));
    for (const address of [
      '127.0.0.1',
      '10.1.2.3',
      '169.254.169.254',
      '192.168.0.1',
      '::1',
      'fe80::1',
      'fd00::1',
      '::ffff:10.0.0.1',
      '64:ff9b::a00:1',
      '2002:a00:1::',
      '0.0.0.0',
      '100.64.0.1',
      '224.0.0.1',
      'x',
    ]) {
      assert.equal(isPublicAddress(address), false, address);
      for (const all of [[address], ['203.0.114.1', address]])
        await fails(
          /no address that may be called/,
          createFetch({ ...publicNetwork, resolve: () => Promise.resolve(all) }, limits),
        );
    }
    for (const address of ['203.0.114.1', '8.8.8.8', '2600:1f18::1'])
      assert.equal(isPublicAddress(address), true);
    for (const wrong of ['http://a/', 'https://a:1/', 'https://u@a/', 'https://:p@a/'])
      await fails(/not a plain https one/, fetch, new URL(wrong));
  });
});

const code = '512d38b6-c7b8-40c8-89fe-f46f9e9622b6';
const right = `https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/Orders/validate?id=${code}&t=2026-04-26T20:30:54.4538837Z&apiVersion=2018-05-01-preview&token=1A1A1A1A`;
const names = parseSubscriptions('orders, payments-2') ?? assert.fail();
const eventType = 'Microsoft.EventGrid.SubscriptionValidationEvent';
const message = (url: unknown, more: object = {}) =>
  Buffer.from(
    JSON.stringify([{ id: '1', eventType, data: { validationCode: code, validationUrl: url }, ...more }]),
  );

test('only the validation URL of the named Event Grid subscription is opened', () => {
  assert.equal(validationUrl(message(right), names)?.href, right);
  for (const url of [
    right.replace('https:', 'http:'),
    right.replace(':553', ''),
    right.replace(':553', ':443'),
    right.replace(':553', ':5533'),
    right.replace('rp-eastus2.eventgrid', 'evil'),
    right.replace('azure.net', 'azure.net.evil.example'),
    right.replace('rp-eastus2', 'a@rp-eastus2'),
    right.replace('rp-eastus2', 'rp-east.us2'),
    right.replace('rp-eastus2.', 'rp-eastus2.x.'),
    right.replace('https://', 'https://[::1]'),
    right.replace('rp-eastus2.eventgrid.azure.net', '169.254.169.254'),
    right.replace('Orders', 'others'),
    right.replace('Orders', 'orders/../x'),
    right.replace('Orders', 'orders%2f..'),
    right.replace('/validate', '/delete'),
    right.replace('/validate', '/validate/x'),
    right.replace(code, '512d38b6-c7b8-40c8-89fe-f46f9e9622b7'),
    right.replace(`id=${code}&`, ''),
    `${right}&id=${code}`,
    `${right}&callback=x`,
    `${right}#a`,
    right.replace('validate', 'validate\\'),
    `${right}${'a'.repeat(2_100)}`,
    '',
    1,
    undefined,
  ])
    assert.equal(validationUrl(message(url), names), null, String(url));
});

test('an Event Grid request without a validation code is no handshake', () => {
  const one = JSON.stringify(JSON.parse(message(right).toString())[0]);
  for (const body of [
    '',
    '[]',
    '{}',
    one,
    `[${one},${one}]`,
    `[${one}]x`,
    `[${one}`,
    message(right, { eventType: 'Microsoft.Storage.BlobCreated' }).toString(),
    `[${one}${' '.repeat(limits.eventGridMessageBytesMax)}]`,
  ])
    assert.equal(validationUrl(Buffer.from(body), names), undefined, body.slice(0, 40));
  assert.equal(validationUrl(message(right, { data: null }), names), null);
  for (const none of ['', 'a', 'orders,', 'ord ers', 'orders/x', Array(33).fill('abc').join(), 1, undefined])
    assert.equal(parseSubscriptions(none), null);
});

test('the Event Grid validation URL is opened once the message is stored, if setting, table and check allow it', async () => {
  const opened: string[] = [];
  const ask = async (change: Partial<Target>, eventGrid: boolean, url = right) => {
    const told: Observation[] = [];
    const fetch = async ({ href }: URL) => {
      opened.push(href);
      return Buffer.alloc(0);
    };
    const context = { observe: (it: Observation) => void told.push(it), clock: () => 0, limits };
    const sns = new Sns({ sns: true, eventGrid }, fetch, { keepCertificate: () => assert.fail() }, context);
    const target = targetOf({ check: () => true, eventGrid: names, ...change });
    const body = message(url);
    const ingest = ingestOf(() => target, { refresh: () => assert.fail(), sns });
    const request = {
      method: 'POST',
      target: '/webhook/dev/public/t',
      rawHeaders: [],
      arrivedAtMs: 0,
      remoteAddress: '',
    };
    await ingest.submit({ ...request, body: () => body });
    await new Promise(setImmediate);
    return told.map(({ kind }) => kind);
  };
  assert.deepEqual(await ask({}, true), ['event_grid.confirmed']);
  assert.deepEqual(await ask({}, true, right.replace('Orders', 'others')), ['event_grid.failed']);
  assert.deepEqual(await ask({}, false), []);
  assert.deepEqual(await ask({ eventGrid: undefined }, true), []);
  assert.deepEqual(await ask({ check: null }, true), []);
  assert.deepEqual(opened, [right]);
});

test('the Event Grid validation URL may have one of two ports', async () => {
  assert.deepEqual(['', '553', '80', '22', '5432'].map(publicNetwork.port), [443, 553, null, null, null]);
  const fetch = createFetch({ ...publicNetwork, resolve: async () => ['10.0.0.1'] }, limits);
  await assert.rejects(fetch(new URL(right)), /no address that may be called/);
  await assert.rejects(fetch(new URL(right.replace(':553', ':554'))), /not a plain https one/);
});
