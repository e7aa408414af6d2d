/** What `headgate start` prints once its doors are open: their addresses, and a first table and request to try. */
import type { GatewayService } from './gateway-main.ts';
import type { Service } from './service.ts';
import { gatewayAsks, gatewayIsClosed, gatewayIsOpen } from '../host/door-settings.ts';
import { consoleUrl, nameOfHost } from '../host/running.ts';
import { urlHost } from '../kit/address.ts';
import type { Settings } from '../config/settings.ts';

const schemeOf = (certificate: string | null): string => (certificate === null ? 'http' : 'https');

interface ShownExample {
  /** Why the example would not work as it is; null: it does. */
  readonly note: string | null;
  /** A person reads it, so the console's line is a login link. */
  readonly terminal: boolean;
}

export function banner(service: Service, settings: Settings, { note, terminal }: ShownExample): string {
  const { listen, gateway } = service.doors;
  const head = `
Headgate is ready (${engineOf(settings)}).

${addresses(service, settings, consoleLineOf(service, terminal))}
`;
  if (listen === null) return head;
  const psql = psqlOf(service);
  const database = service.engine.defaultDatabase;
  const webhook = `${schemeOf(settings.listenTlsCert)}://${nameOfHost(listen.host)}:${listen.port}/webhook/${database}/public/github_events`;
  const token =
    settings.gatewayToken === null && !gatewayIsClosed(settings) ? '' : " -H 'authorization: Bearer <token>'";
  const withoutPsql = `curl${token} ${schemeOf(settings.gatewayTlsCert)}://${nameOfHost(gateway.host)}:${gateway.port}/v1/sql`;
  return `${head}${note === null ? '' : `Before the first table: ${note}.\n\n`}Try it: a table,

  ${psql} \\
    -c "CREATE SECRET IF NOT EXISTS github_secret WITH (backend = 'meta') AS 'a long random key'" \\
    -c "CREATE TABLE IF NOT EXISTS github_events (data JSONB)
        INCLUDE HEADER 'x-github-event' AS event
        INCLUDE HEADER 'x-github-delivery' AS delivery_id
        INCLUDE TIMESTAMP AS received_at
        INCLUDE HEADERS AS headers
        INCLUDE BODY AS raw
        WITH (connector = 'webhook') VALIDATE SECRET github_secret USING github"

a request as GitHub signs it,

  body='{"action":"opened","number":1}'
  signature=$(printf %s "$body" | openssl dgst -sha256 -hmac 'a long random key' -r | cut -d' ' -f1)
  curl -H 'X-GitHub-Event: issues' -H "X-Hub-Signature-256: sha256=$signature" -d "$body" \\
    ${webhook}

and its row.

  ${psql} -c "SELECT event, count(*) FROM github_events GROUP BY event"

Without psql: ${withoutPsql} -d '<any of these statements>'

`;
}

/** In place of the banner, which follows once the database can be used. */
export function waitingBanner(service: Service, settings: Settings, reason: string): string {
  return `
Headgate is not ready yet (${engineOf(settings)}):

  ${reason}

Until then webhooks get 503, or 202 where their table spools. Headgate tries again by itself.

${addresses(service, settings, '')}
`;
}

const engineOf = ({ databaseUrl, dataDir }: Settings): string =>
  databaseUrl === null ? `embedded PostgreSQL in ${dataDir}` : 'PostgreSQL of HEADGATE_DATABASE_URL';

/** As Headgate's own role, which owns the tables that it creates. */
function psqlOf({ engine, doors: { sql } }: Service): string {
  const { defaultDatabase: database } = engine;
  const { user = 'root' } = engine.clientConfig(database);
  return `psql -h ${nameOfHost(sql.host)} -p ${sql.port} -d ${shellWord(database)} -U ${shellWord(user)}`;
}

/** Quoted if a shell would read it otherwise. */
const shellWord = (text: string): string =>
  /^[\w.@%+,:/-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

function addresses(service: Service, settings: Settings, consoleLine: string): string {
  const { listen, gateway, admin } = service.doors;
  const webhooks =
    listen === null
      ? 'off (HEADGATE_LISTEN_ENABLED=false)'
      : `${schemeOf(settings.listenTlsCert)}://${urlHost(listen.host)}:${listen.port}/webhook/<database>/<schema>/<table>${
          listen.host === '::' ? '  (IPv6 and IPv4)' : ''
        }`;
  return `  webhooks  ${webhooks}
  SQL       ${psqlOf(service)}
  events    ${schemeOf(settings.gatewayTlsCert)}://${gateway.host}:${gateway.port}/v1/events  /v1/sql${openGateway(settings)}
  admin     http://${admin.host}:${admin.port}/healthz  /readyz  /metrics${consoleLine}
`;
}

const asksNobody = '  (asks for no credential: EVENTS_API_TOKEN)';

/** Whoever has set a password, here or in a server of their own, may expect that it closes this door, too. */
function openGateway(settings: Settings): string {
  if (gatewayIsClosed(settings)) return '  (closed until EVENTS_API_TOKEN is set)';
  return gatewayIsOpen(settings) ? asksNobody : '';
}

/** A link is a credential: it is not printed if only a file or a log collector reads the output. */
function consoleLineOf({ console, doors: { admin } }: Service, terminal: boolean): string {
  if (console === null) return '';
  const url = consoleUrl(admin);
  const link = terminal ? console.link() : '';
  return link === ''
    ? `\n  console   ${url}  (headgate console shows how to log in)`
    : `\n  console   ${url}${link}`;
}

/** What `headgate gateway` prints in place of its banner while a database cannot be used. */
export function gatewayWaits({ gateway }: GatewayService, settings: Settings, reason: string): string {
  const { host, port } = gateway.address;
  return `
The events gateway is not ready yet:

  ${reason}

Until then its requests get 503. The gateway tries again by itself.

  events  ${schemeOf(settings.gatewayTlsCert)}://${host}:${port}/v1/events?name=<table>

`;
}

/** What `headgate gateway` prints once its databases can be used. */
export function gatewayBanner({ gateway, databases }: GatewayService, settings: Settings): string {
  const { host, port } = gateway.address;
  const scheme = schemeOf(settings.gatewayTlsCert);
  const url = `${scheme}://${nameOfHost(host)}:${port}`;
  const token = settings.gatewayToken === null ? '' : " -H 'authorization: Bearer <token>'";
  return `
The events gateway is ready (${databases.join(', ')}).

  events  ${scheme}://${host}:${port}/v1/events?name=<table>
  SQL     ${scheme}://${host}:${port}/v1/sql${gatewayAsks(settings) ? '' : asksNobody}

Try it: a table, an event, and its row.

  curl${token} ${url}/v1/sql -d 'CREATE TABLE clickstream (user_id STRING, page STRING, at TIMESTAMPTZ)'
  curl${token} '${url}/v1/events?name=clickstream' -d '{"user_id": "u1", "page": "/", "at": "2026-01-01T00:00:00Z"}'
  curl${token} ${url}/v1/sql -d 'SELECT * FROM clickstream'

`;
}
