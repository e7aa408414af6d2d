/** The settings for a certificate issued by an authority (ACME). */
import { isIP } from 'node:net';
import { limits } from './limits.ts';
import { BadSetting, bool, oneOf, port, setting, text } from './setting.ts';
import type { Parse } from './setting.ts';

const label = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?';
const domain = new RegExp(`^(?=.{4,253}$)(${label}\\.)+${label}$`);

const domains: Parse<readonly string[]> = (t) => {
  const words = [...new Set(t.split(',').map((word) => word.trim().toLowerCase()))];
  const wrong = words.find((word) => !domain.test(word) || isIP(word) !== 0);
  if (wrong !== undefined)
    throw new BadSetting(
      `must contain domains such as hooks.example.com, separated by commas; "${wrong}" is not one (wildcards are not supported)`,
    );
  if (words.length > limits.acmeDomainsMax)
    throw new BadSetting(`must contain ${limits.acmeDomainsMax} domains at most`);
  return words;
};
const directory: Parse<string> = (t) => {
  const url = URL.canParse(t) ? new URL(t) : null;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || url.hash !== '')
    throw new BadSetting('must be an https:// URL without a user, password or fragment');
  return url.href;
};
const mail: Parse<string> = (t) => {
  if (!/^[^\s@,;?&<>]{1,64}@[^\s@,;?&<>]{1,253}$/.test(t)) throw new BadSetting('must be one email address');
  return t;
};
const base64url: Parse<string> = (t) => {
  if (!/^[\w-]{16,1024}=*$/.test(t))
    throw new BadSetting('must be the key as the authority gave it (base64url)');
  return t;
};

export const acmeSettings = {
  listenAcmeDomains: setting<readonly string[]>(
    'listen-acme-domain',
    'HEADGATE_LISTEN_ACME_DOMAIN',
    'DOMAINS',
    [],
    domains,
    'domains of the webhook listener, e.g. hooks.example.com, separated by commas; Headgate gets a certificate for them from an authority (docs/deploy/https.md)',
  ),
  listenAcmeAgree: setting(
    'listen-acme-agree',
    'HEADGATE_LISTEN_ACME_AGREE',
    'BOOL',
    false,
    bool,
    "you agree to the authority's terms of service; required to request a certificate",
  ),
  listenAcmeDirectory: setting(
    'listen-acme-directory',
    'HEADGATE_LISTEN_ACME_DIRECTORY',
    'URL',
    'https://acme-v02.api.letsencrypt.org/directory',
    directory,
    "the authority's ACME directory",
  ),
  listenAcmeContact: setting<string | null>(
    'listen-acme-contact',
    'HEADGATE_LISTEN_ACME_CONTACT',
    'MAIL',
    null,
    mail,
    'email address that the authority may write to',
  ),
  listenAcmeChallenge: setting(
    'listen-acme-challenge',
    'HEADGATE_LISTEN_ACME_CHALLENGE',
    'WORD',
    'tls-alpn-01' as 'tls-alpn-01' | 'http-01',
    oneOf('tls-alpn-01', 'http-01'),
    'how the authority checks that the domains are yours: tls-alpn-01: on port 443, which must reach the webhook listener; http-01: on port 80',
  ),
  listenAcmeHttpPort: setting(
    'listen-acme-http-port',
    'HEADGATE_LISTEN_ACME_HTTP_PORT',
    'N',
    80,
    port,
    'with http-01: port that answers the authority and redirects all others to https; 0 picks a free one',
  ),
  listenAcmeEabId: setting<string | null>(
    'listen-acme-eab-id',
    'HEADGATE_LISTEN_ACME_EAB_ID',
    'ID',
    null,
    text,
    'key identifier of your account, if the authority requires one (external account binding)',
  ),
  listenAcmeEabKey: setting<string | null>(
    null,
    'HEADGATE_LISTEN_ACME_EAB_KEY',
    'BASE64',
    null,
    base64url,
    'key of that account (HMAC, base64url)',
    true,
  ),
} as const;
