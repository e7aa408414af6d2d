/** What is said of settings for an authority before anything is asked. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { resolveSettings } from './resolve-settings.ts';

const domain = { HEADGATE_LISTEN_ACME_DOMAIN: 'hooks.example.com' };
const agreed = { ...domain, HEADGATE_LISTEN_ACME_AGREE: 'true' };
const resolve = (env: Readonly<Record<string, string>>) => resolveSettings({ env, flags: {} }).settings;
const refuses = (env: Readonly<Record<string, string>>, says: RegExp) =>
  assert.throws(() => resolve(env), { name: 'SettingsError', message: says }, JSON.stringify(env));

suite('the ACME settings are checked at the start', () => {
  test('ACME domains are lower-case host names without repetition', () => {
    const text = ' Hooks.Example.COM, xn--bcher-kva.example ,hooks.example.com';
    const { listenAcmeDomains, listenAcmeDirectory, listenAcmeChallenge } = resolve({
      ...agreed,
      HEADGATE_LISTEN_ACME_DOMAIN: text,
    });
    assert.deepEqual(listenAcmeDomains, ['hooks.example.com', 'xn--bcher-kva.example']);
    assert.equal(listenAcmeDirectory, 'https://acme-v02.api.letsencrypt.org/directory');
    assert.equal(listenAcmeChallenge, 'tls-alpn-01');
    for (const wrong of [
      '*.example.com',
      '127.0.0.1',
      '::1',
      'localhost',
      'a..b',
      '-a.example',
      'a.example,',
      'bücher.example',
      'a/b.example',
      `${'a'.repeat(64)}.example`,
    ])
      refuses({ ...agreed, HEADGATE_LISTEN_ACME_DOMAIN: wrong }, /must contain domains such as/);
    const many = Array.from({ length: 101 }, (_, i) => `a${i}.example.com`).join();
    refuses({ ...agreed, HEADGATE_LISTEN_ACME_DOMAIN: many }, /100 domains at most/);
  });

  test('contradictory ACME settings are refused: no agreement, certificate files, no domain, half an account', () => {
    refuses(domain, /set HEADGATE_LISTEN_ACME_AGREE=true if you agree/);
    refuses({ ...domain, HEADGATE_LISTEN_ACME_AGREE: 'false' }, /if you agree/);
    refuses(
      { ...agreed, HEADGATE_LISTEN_TLS_CERT: 'x' },
      /ACME_DOMAIN and HEADGATE_LISTEN_TLS_CERT are both set/,
    );
    refuses({ ...agreed, HEADGATE_LISTEN_ENABLED: 'false' }, /listener is switched off/);
    refuses({ HEADGATE_LISTEN_ACME_AGREE: 'true' }, /there is no domain to get a certificate for/);
    refuses({ ...agreed, HEADGATE_LISTEN_ACME_EAB_ID: 'x' }, /belong together/);
    refuses(
      { ...agreed, HEADGATE_LISTEN_ACME_EAB_ID: 'x', HEADGATE_LISTEN_ACME_EAB_KEY: 'short' },
      /must be the key/,
    );
    refuses({ ...agreed, HEADGATE_LISTEN_ACME_DIRECTORY: 'http://authority.test/' }, /must be an https/);
    refuses({ ...agreed, HEADGATE_LISTEN_ACME_DIRECTORY: 'https://u:p@authority.test/' }, /must be an https/);
    refuses({ ...agreed, HEADGATE_LISTEN_ACME_CONTACT: 'a@b.c, d@e.f' }, /one email address/);
  });
});
