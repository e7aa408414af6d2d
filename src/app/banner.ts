/** What `headgate start` prints once its doors are open: their addresses, and a first table and request to try. */
import type { GatewayService } from './gateway-main.ts';
import type { Service } from './start.ts';
import { consoleUrl, reachable } from '../host/console-address.ts';
import type { Settings } from '../config/settings.ts';

const schemeOf = (certificate: string | null): string => (certificate === null ? 'http' : 'https');

/** `terminal`: a person reads it, so the console's line is a login link. */
export function banner(service: Service, settings: Settings, terminal = false): string {
  const { listen, sql, gateway, admin } = service.doors;
  const database = service.engine.defaultDatabase;
  const scheme = schemeOf(settings.listenTlsCert);
  const engine =
    settings.databaseUrl === null
      ? `embedded PostgreSQL in ${settings.dataDir}`
      : 'PostgreSQL of HEADGATE_DATABASE_URL';
  const psql =
    settings.databaseUrl === null
      ? `psql -h ${reachable(sql.host)} -p ${sql.port} -d ${database} -U root`
      : `psql -h ${reachable(sql.host)} -p ${sql.port} -d ${database}`;
  const token = settings.gatewayToken === null ? '' : " -H 'authorization: Bearer <token>'";
  const withoutPsql = `curl${token} ${schemeOf(settings.gatewayTlsCert)}://${reachable(gateway.host)}:${gateway.port}/v1/sql`;
  const adminLine = `admin     http://${admin.host}:${admin.port}/healthz  /readyz  /metrics`;
  const eventsLine = `events    ${schemeOf(settings.gatewayTlsCert)}://${gateway.host}:${gateway.port}/v1/events  /v1/sql`;
  const consoleLine = consoleLineOf(service, terminal);
  if (listen === null) {
    return `
Headgate is ready (${engine}).

  webhooks  off (HEADGATE_LISTEN_ENABLED=false)
  SQL       ${psql}
  ${eventsLine}
  ${adminLine}${consoleLine}

`;
  }
  const webhook = `${scheme}://${reachable(listen.host)}:${listen.port}/webhook/${database}/public/github_events`;
  return `
Headgate is ready (${engine}).

  webhooks  ${scheme}://${listen.host}:${listen.port}/webhook/<database>/<schema>/<table>
  SQL       ${psql}
  ${eventsLine}
  ${adminLine}${consoleLine}

Try it: a table,

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

/** A link is a credential: it is not printed if only a file or a log collector reads the output. */
function consoleLineOf({ console, doors: { admin } }: Service, terminal: boolean): string {
  if (console === null) return '';
  const url = consoleUrl(admin);
  const link = terminal ? console.link() : '';
  return link === ''
    ? `\n  console   ${url}  (headgate console shows how to log in)`
    : `\n  console   ${url}${link}`;
}

/** What `headgate gateway` prints once its door is open. */
export function gatewayBanner({ gateway, databases }: GatewayService, settings: Settings): string {
  const { host, port } = gateway.address;
  const scheme = schemeOf(settings.gatewayTlsCert);
  const url = `${scheme}://${reachable(host)}:${port}`;
  const token = settings.gatewayToken === null ? '' : " -H 'authorization: Bearer <token>'";
  return `
The events gateway is ready (${databases.join(', ')}).

  events  ${scheme}://${host}:${port}/v1/events?name=<table>
  SQL     ${scheme}://${host}:${port}/v1/sql

Try it: a table, an event, and its row.

  curl${token} ${url}/v1/sql -d 'CREATE TABLE clickstream (user_id STRING, page STRING, at TIMESTAMPTZ)'
  curl${token} '${url}/v1/events?name=clickstream' -d '{"user_id": "u1", "page": "/", "at": "2026-01-01T00:00:00Z"}'
  curl${token} ${url}/v1/sql -d 'SELECT * FROM clickstream'

`;
}
