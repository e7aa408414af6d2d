import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openGate } from '../../test/support/gateway.ts';
import { RequestGuard } from './guard.ts';
import type { GuardOptions } from './guard.ts';
import { AllowedPages } from './pages.ts';

const gate = openGate();
const closed: GuardOptions = { host: '127.0.0.1', token: null, origins: [], hosts: [], secure: false, gate };
const at = (host: string | undefined, origin?: string, localAddress = '127.0.0.1') => ({
  one: (name: string) => ({ host, origin })[name],
  localAddress,
  localPort: 8000,
});
const place = (options: Partial<GuardOptions>, ...request: Parameters<typeof at>) =>
  new AllowedPages({ ...closed, ...options }).refuses(at(...request))?.code ?? 'ok';

test('the gateway accepts Host headers of this machine with its own port only', () => {
  for (const host of ['127.0.0.1:8000', 'localhost:8000', 'LOCALHOST:8000', '[::1]:8000', '127.8.8.8:8000']) {
    assert.equal(place({}, host), 'ok', host);
  }
  for (const host of [
    'evil.example',
    'evil.example:8000',
    'localhost',
    'localhost:80',
    'localhost:8001',
    'localhost.evil.example:8000',
    '127.0.0.1.evil.example:8000',
    '127.evil.example:8000',
    '192.168.1.7:8000',
    '[::2]:8000',
    'localhost:8000@evil.example',
    'localhost:',
    'localhost:99999',
    '',
    ':8000',
    '[::1',
    '0.0.0.0:8000',
  ]) {
    assert.equal(place({}, host), 'host_refused', host);
  }
  assert.equal(place({}, undefined), 'ok', 'HTTP/1.0: no browser');
});

test('the gateway does not accept a Host of one address at another', () => {
  const pages = new AllowedPages({ ...closed, host: '0.0.0.0' });
  const here = at('192.168.1.7:8000', undefined, '192.168.1.7');
  for (const request of [here, here]) assert.equal(pages.refuses(request), null);
  assert.equal(pages.refuses({ ...here, localPort: 8001 })?.code, 'host_refused');
  assert.equal(pages.refuses({ ...here, localAddress: '10.0.0.1' })?.code, 'host_refused');
  assert.equal(pages.refuses(at('192.168.1.8:8000', undefined, '192.168.1.7'))?.code, 'host_refused');
  assert.equal(pages.refuses(here), null);
});

test('the gateway accepts a Host of the address that received the request, and of the bound address', () => {
  assert.equal(place({ host: '0.0.0.0' }, '192.168.1.7:8000', undefined, '192.168.1.7'), 'ok');
  assert.equal(place({ host: '::' }, '192.168.1.7:8000', undefined, '::ffff:192.168.1.7'), 'ok');
  assert.equal(place({ host: '::' }, '[fd00::7]:8000', undefined, 'fd00::7'), 'ok');
  assert.equal(place({ host: 'gateway.lan' }, 'gateway.lan:8000', undefined, '10.0.0.1'), 'ok');
  assert.equal(place({ host: '0.0.0.0' }, '192.168.1.8:8000', undefined, '192.168.1.7'), 'host_refused');
});

test('the gateway accepts Host headers of the setting, with their port or any', () => {
  const hosts = ['api.example.com', 'db.internal:9000'];
  assert.equal(place({ hosts }, 'api.example.com'), 'ok');
  assert.equal(place({ hosts }, 'API.example.com:443'), 'ok');
  assert.equal(place({ hosts }, 'db.internal:9000'), 'ok');
  assert.equal(place({ hosts }, 'db.internal:9001'), 'host_refused');
  assert.equal(place({ hosts: ['*'] }, 'anything.example'), 'ok');
});

test('the gateway refuses web pages of other origins, and accepts its own and those of the setting', () => {
  const host = 'localhost:8000';
  for (const origin of [
    'https://evil.example',
    'null',
    'http://localhost',
    'http://localhost:3000',
    'http://127.0.0.1:8000',
    'http://localhost:8000.evil.example',
    'file://',
    '',
  ]) {
    assert.equal(place({}, host, origin), 'page_refused', origin);
  }
  assert.equal(place({}, host, 'http://localhost:8000'), 'ok', 'a page of the gateway itself');
  assert.equal(place({ origins: ['https://app.example'] }, host, 'https://APP.example'), 'ok');
  assert.equal(place({ origins: ['https://app.example'] }, host, 'http://app.example'), 'page_refused');
  assert.equal(place({ origins: ['*'] }, host, 'https://any.example'), 'ok');
  // DNS rebinding: Origin and Host agree, and neither is ours.
  assert.equal(place({ origins: [] }, 'evil.example:8000', 'http://evil.example:8000'), 'host_refused');
});

test('the gateway requires the token if one is set', () => {
  const guard = new RequestGuard({ ...closed, token: 's3cret' });
  assert.equal(new RequestGuard(closed).refusesToken(undefined), null);
  for (const header of ['Bearer s3cret', 'bearer s3cret', 'BEARER   s3cret  ']) {
    assert.equal(guard.refusesToken(header), null, header);
  }
  for (const header of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    's3cret',
    'Basic s3cret',
    'Bearer s3cre',
    'Bearer s3cret x',
  ]) {
    assert.equal(guard.refusesToken(header)?.code, 'token_required', String(header));
  }
});

test('a gateway that is closed lets in tokens of CREATE TOKEN alone', () => {
  const guard = new RequestGuard({ ...closed, closed: true });
  assert.match(guard.refusesToken(undefined)?.message ?? '', /EVENTS_API_TOKEN is set/);
  assert.equal(guard.refusesToken('Bearer anything')?.code, 'token_required');
  assert.equal(guard.scopedToken('Bearer hgt_1'), 'hgt_1');
  assert.equal(new RequestGuard({ ...closed, closed: true, token: 's3' }).refusesToken('Bearer s3'), null);
});

test("the gateway looks up a bearer value in the form of CREATE TOKEN, unless it is the setting's token", () => {
  const own = `hgt_${'0'.repeat(64)}`;
  const scoped = (token: string | null, header?: string) =>
    new RequestGuard({ ...closed, token }).scopedToken(header);
  assert.equal(scoped(null, `Bearer ${own}`), own);
  assert.equal(scoped('s3cret', `bearer  ${own} `), own);
  assert.equal(scoped(null, 'Bearer hgt_'), 'hgt_');
  assert.equal(scoped(own, `Bearer ${own}`), null);
  assert.equal(scoped(own, `Bearer ${own}0`), `${own}0`);
  for (const header of [undefined, '', 'Bearer s3cret', `Basic ${own}`, `Bearer ${own} x`, own])
    assert.equal(scoped(null, header), null, header);
  assert.equal(
    new RequestGuard({ ...closed, token: 's3cret' }).refusesToken(`Bearer ${own}`)?.code,
    'token_required',
  );
});

test('a gateway with TLS reads a Host without port as port 443, and refuses pages loaded over plain HTTP', () => {
  const guard = (host: string, origin?: string) =>
    new AllowedPages({ ...closed, secure: true }).refuses({ ...at(host, origin), localPort: 443 })?.code ??
    'ok';
  assert.equal(guard('localhost'), 'ok');
  assert.equal(guard('localhost:443'), 'ok');
  assert.equal(guard('localhost:80'), 'host_refused');
  assert.equal(guard('localhost', 'https://localhost'), 'ok');
  assert.equal(guard('localhost', 'http://localhost'), 'page_refused');
  assert.equal(place({ secure: true }, 'localhost:8000', 'https://localhost:8000'), 'ok');
  assert.equal(place({ secure: true }, 'localhost:8000', 'http://localhost:8000'), 'page_refused');
  // A proxy with TLS in front of a plain door.
  assert.equal(place({ hosts: ['api.example'] }, 'api.example', 'https://api.example'), 'ok');
});

test('the gateway judges a request without Origin by its Sec-Fetch-Site header', () => {
  const from = (site: string, options: Partial<GuardOptions> = {}, origin?: string) => {
    const request = at('localhost:8000', origin);
    const one = (name: string) => (name === 'sec-fetch-site' ? site : request.one(name));
    return new AllowedPages({ ...closed, ...options }).refuses({ ...request, one })?.code ?? 'ok';
  };
  assert.deepEqual(
    ['same-origin', 'none'].map((site) => from(site)),
    ['ok', 'ok'],
  );
  for (const site of ['cross-site', 'same-site', 'Cross-Site', 'cross-site, none', '']) {
    assert.equal(from(site), 'page_refused', site);
    assert.equal(from(site, { origins: ['https://app.example'] }), 'page_refused', site);
    assert.equal(from(site, { origins: ['https://app.example'] }, 'https://app.example'), 'ok', site);
    assert.equal(from(site, { origins: ['*'] }), 'ok', site);
  }
});
