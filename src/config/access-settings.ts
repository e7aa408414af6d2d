/** The settings that guard the doors: certificates, passwords, networks and rates. */
import { Networks } from '../kit/networks.ts';
import { parseRate } from '../kit/rate.ts';
import { BadSetting, bool, hosts, integer, oneOf, setting, text } from './setting.ts';
import type { Parse } from './setting.ts';

/** Only characters that SASLprep (RFC 4013) leaves unchanged, so that every client sends the same bytes for it. */
export const password: Parse<string> = (t) => {
  if (!/^[\x20-\x7e]{1,1024}$/.test(t)) throw new BadSetting('must be 1 to 1024 printable ASCII characters');
  return t;
};

export const networks: Parse<string> = (t) => {
  const read = Networks.parse(t);
  if (/(^|,)\s*(,|$)/.test(t)) throw new BadSetting('has an empty entry between two commas, or at an end');
  if (read instanceof Networks) {
    const [wide] = read.wide;
    if (wide !== undefined)
      throw new BadSetting(
        `contains ${wide.text}, which is one address with the prefix length of a network: write ${wide.network} or ${wide.address}`,
      );
    return t;
  }
  throw new BadSetting(
    `must contain networks such as 10.0.0.0/8, 2001:db8::/32; "${read.wrong}" is not a network`,
  );
};
const rate: Parse<string> = (t) => {
  if (parseRate(t) === null)
    throw new BadSetting('must be a number of requests per time, such as 100/s, 600/min, 100/s burst 50');
  return t;
};

/** The TLS settings of one door. */
const tlsSettings = (door: string, env: string, what: string) => ({
  cert: setting<string | null>(
    `${door}-tls-cert`,
    `HEADGATE_${env}_TLS_CERT`,
    'FILE',
    null,
    text,
    `certificate chain of ${what}, PEM; turns TLS on`,
  ),
  key: setting<string | null>(
    `${door}-tls-key`,
    `HEADGATE_${env}_TLS_KEY`,
    'FILE',
    null,
    text,
    `private key of that certificate, PEM`,
  ),
  clientCa: setting<string | null>(
    `${door}-tls-client-ca`,
    `HEADGATE_${env}_TLS_CLIENT_CA`,
    'FILE',
    null,
    text,
    `certificate authorities that must have issued the client certificates of ${what}, PEM`,
  ),
  clientCert: setting(
    `${door}-tls-client-cert`,
    `HEADGATE_${env}_TLS_CLIENT_CERT`,
    'WORD',
    'required' as 'required' | 'optional',
    oneOf('required', 'optional'),
    'with client authorities: whether clients must present a certificate',
  ),
});
const listenTls = tlsSettings('listen', 'LISTEN', 'the webhook listener');
const sqlTls = tlsSettings('sql', 'SQL', 'the SQL door');
const gatewayTls = tlsSettings('gateway', 'GATEWAY', 'the events gateway');

export const guardSettings = {
  confirmSubscriptions: setting(
    'confirm-subscriptions',
    'HEADGATE_CONFIRM_SUBSCRIPTIONS',
    'WHOSE',
    'off' as 'off' | 'sns' | 'event_grid' | 'sns,event_grid',
    oneOf('off', 'sns', 'event_grid', 'sns,event_grid'),
    'sns: for tables with sns_topics, fetch the certificate of AWS SNS and confirm subscriptions of those topics; event_grid: for tables with event_grid_subscriptions, open the URL that validates one of those; sns,event_grid: both; off: neither',
  ),
  jwksHosts: setting<readonly string[]>(
    'jwks-hosts',
    'HEADGATE_JWKS_HOSTS',
    'HOSTS',
    [],
    hosts,
    'host:port of each server from which the keys of an issuer of tokens may be fetched (jwks in VALIDATE), separated by commas; empty: none',
  ),
  listenTlsCert: listenTls.cert,
  listenTlsKey: listenTls.key,
  listenTlsClientCa: listenTls.clientCa,
  listenTlsClientCert: listenTls.clientCert,
  sqlTlsCert: sqlTls.cert,
  sqlTlsKey: sqlTls.key,
  sqlTlsClientCa: sqlTls.clientCa,
  sqlTlsClientCert: sqlTls.clientCert,
  gatewayTlsCert: gatewayTls.cert,
  gatewayTlsKey: gatewayTls.key,
  gatewayTlsClientCa: gatewayTls.clientCa,
  gatewayTlsClientCert: gatewayTls.clientCert,
  trustedProxies: setting<string | null>(
    'trusted-proxies',
    'HEADGATE_TRUSTED_PROXIES',
    'NETWORKS',
    null,
    networks,
    'networks (CIDR) of proxies whose forwarded header is trusted, e.g. 10.0.0.0/8, fd00::/8',
  ),
  forwardedHeader: setting(
    'forwarded-header',
    'HEADGATE_FORWARDED_HEADER',
    'NAME',
    'x-forwarded-for' as 'x-forwarded-for' | 'forwarded',
    oneOf('x-forwarded-for', 'forwarded'),
    'header in which trusted proxies name the client; the other one is ignored',
  ),
  listenNetworks: setting<string | null>(
    'listen-networks',
    'HEADGATE_LISTEN_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'networks (CIDR) whose clients the webhook listener serves; others get 403',
  ),
  gatewayNetworks: setting<string | null>(
    'gateway-networks',
    'HEADGATE_GATEWAY_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'networks (CIDR) whose clients the events gateway serves; others get 403',
  ),
  addressRate: setting<string | null>(
    'address-rate',
    'HEADGATE_ADDRESS_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener accepts from one address (IPv6: /64), e.g. 100/s; a tenth of them (at least 10) may arrive at once, or as many as the burst says (100/s burst 50); the rest get 429',
  ),
  tableRate: setting<string | null>(
    'table-rate',
    'HEADGATE_TABLE_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener accepts for one table, e.g. 1000/s; a tenth of them (at least 10) may arrive at once, or as many as the burst says (1000/s burst 500); the rest get 429',
  ),
  keepAliveSeconds: setting(
    'keep-alive-seconds',
    'HEADGATE_KEEP_ALIVE_SECONDS',
    'N',
    75,
    integer(1, 3_600),
    'how long an idle connection to the webhook listener, the events gateway or the admin port stays open; behind a proxy longer than it keeps its own (Google Cloud: 600), or requests fail now and then with 502',
  ),
  sqlTlsOptional: setting(
    'sql-tls-optional',
    'HEADGATE_SQL_TLS_OPTIONAL',
    'BOOL',
    false,
    bool,
    'with TLS: also accept clients of the SQL port that do not use TLS',
  ),
  sqlPassword: setting<string | null>(
    null,
    'HEADGATE_SQL_PASSWORD',
    'TEXT',
    null,
    password,
    'password of root on the SQL port of the embedded engine; other roles use the password of CREATE ROLE; unset: no password is required. The events gateway does not ask for it: HEADGATE_GATEWAY_TOKEN',
    true,
  ),
  sqlPasswordFile: setting<string | null>(
    'sql-password-file',
    'HEADGATE_SQL_PASSWORD_FILE',
    'FILE',
    null,
    text,
    'the same, read from the first line of a file',
  ),
} as const;
