/** The one URL that is opened for Event Grid, every other that is not, and requests that ask for none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { targetOf } from '../../test/support/rows.ts';
import { createFetch, publicNetwork } from '../access/outgoing.ts';
import { parseSubscriptions } from '../senders/sns-topics.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Observation } from '../observe/observations.ts';
import { validationUrl } from './event-grid.ts';
import { Ingest } from './ingest.ts';
import { Sns } from './sns.ts';

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
    const ingest = new Ingest({
      way: {
        find: () => target,
        isStill: () => true,
        admit: () => undefined,
        submit: async () => ({ kind: 'committed', rows: 1 }),
      },
      catalog: { refresh: () => assert.fail() },
      clock: () => 0,
      sns,
    });
    const request = {
      method: 'POST',
      target: '/webhook/dev/public/t',
      rawHeaders: [],
      arrivedAtMs: 0,
      remoteAddress: '',
    };
    await ingest.submit({ ...request, body: () => body }, { target: () => undefined });
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
