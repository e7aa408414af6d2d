/** The rows of settings for what stands in the doors: certificates, passwords, networks and rates. */
import { Networks } from '../kit/networks.ts';
import { parseRate } from '../kit/rate.ts';
import { BadSetting, bool, oneOf, setting, text } from './setting.ts';
import type { Parse } from './setting.ts';

/** What SASLprep (RFC 4013) leaves as it is: then every client means the same bytes by it. */
export const password: Parse<string> = (t) => {
  if (!/^[\x20-\x7e]{1,1024}$/.test(t)) throw new BadSetting('must be 1 to 1024 printable ASCII characters');
  return t;
};

const networks: Parse<string> = (t) => {
  const read = Networks.parse(t);
  if (/(^|,)\s*(,|$)/.test(t)) throw new BadSetting('has an empty place between two commas, or at an end');
  if (read instanceof Networks) {
    const [wide] = read.wide;
    if (wide !== undefined)
      throw new BadSetting(
        `holds ${wide.text}, one address with the width of a network: write ${wide.network} or ${wide.address}`,
      );
    return t;
  }
  throw new BadSetting(`must hold networks such as 10.0.0.0/8, 2001:db8::/32; "${read.wrong}" is none`);
};
const rate: Parse<string> = (t) => {
  if (parseRate(t) === null)
    throw new BadSetting('must be a number of requests in a time, such as 100/s, 600/min, 100/s burst 50');
  return t;
};

/** The rows of one door's TLS. */
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
    `certificate authorities that client certificates of ${what} must come from, PEM`,
  ),
  clientCert: setting(
    `${door}-tls-client-cert`,
    `HEADGATE_${env}_TLS_CLIENT_CERT`,
    'WORD',
    'required' as 'required' | 'optional',
    oneOf('required', 'optional'),
    'with client authorities: whether a client certificate is required or optional',
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
    'sns: for tables with sns_topics, fetch the certificate of AWS SNS and confirm subscriptions of those topics; event_grid: for tables with event_grid_subscriptions, open the URL that validates one of those; sns,event_grid: both; off: Headgate calls nobody',
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
    'trusted proxy networks (CIDR), e.g. 10.0.0.0/8, fd00::/8; their forwarded header is believed',
  ),
  forwardedHeader: setting(
    'forwarded-header',
    'HEADGATE_FORWARDED_HEADER',
    'NAME',
    'x-forwarded-for' as 'x-forwarded-for' | 'forwarded',
    oneOf('x-forwarded-for', 'forwarded'),
    'the header in which trusted proxies name the client; the other one is ignored',
  ),
  listenNetworks: setting<string | null>(
    'listen-networks',
    'HEADGATE_LISTEN_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'networks (CIDR) whose clients the webhook listener answers; others read 403',
  ),
  gatewayNetworks: setting<string | null>(
    'gateway-networks',
    'HEADGATE_GATEWAY_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'networks (CIDR) whose clients the events gateway answers; others read 403',
  ),
  addressRate: setting<string | null>(
    'address-rate',
    'HEADGATE_ADDRESS_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener takes from one address (IPv6: /64), e.g. 100/s; a tenth of them (at least 10) may come at once, or as many as a burst says (100/s burst 50); more read 429',
  ),
  tableRate: setting<string | null>(
    'table-rate',
    'HEADGATE_TABLE_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener takes for one table, e.g. 1000/s; a tenth of them (at least 10) may come at once, or as many as a burst says (1000/s burst 500); more read 429',
  ),
  sqlTlsOptional: setting(
    'sql-tls-optional',
    'HEADGATE_SQL_TLS_OPTIONAL',
    'BOOL',
    false,
    bool,
    'with TLS: also accept clients of the SQL port that do not encrypt',
  ),
  sqlPassword: setting<string | null>(
    null,
    'HEADGATE_SQL_PASSWORD',
    'TEXT',
    null,
    password,
    'password of root on the SQL port of the embedded engine; other roles use those of CREATE ROLE; unset: no password is asked for',
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
