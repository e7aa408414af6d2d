/** What `headgate start` prints when its doors are open: where they are, and a first table and request to try. */
import type { Service } from './main.ts';
import type { Settings } from './settings.ts';

export function banner(service: Service, settings: Settings): string {
  const { listen, sql, admin } = service.doors;
  const database = service.engine.defaultDatabase;
  const reachable = (host: string) => (host === '0.0.0.0' || host === '::' ? 'localhost' : host);
  const scheme = settings.listenTlsCert === null ? 'http' : 'https';
  const engine =
    settings.databaseUrl === null
      ? `embedded PostgreSQL in ${settings.dataDir}`
      : 'PostgreSQL of HEADGATE_DATABASE_URL';
  const psql =
    settings.databaseUrl === null
      ? `psql -h ${reachable(sql.host)} -p ${sql.port} -d ${database} -U root`
      : `psql -h ${reachable(sql.host)} -p ${sql.port} -d ${database}`;
  const adminLine = `admin     http://${admin.host}:${admin.port}/healthz  /readyz  /metrics`;
  if (listen === null) {
    return `
Headgate is ready (${engine}).

  webhooks  off (HEADGATE_LISTEN_ENABLED=false)
  SQL       ${psql}
  ${adminLine}

`;
  }
  const webhook = `${scheme}://${reachable(listen.host)}:${listen.port}/webhook/${database}/public/orders`;
  return `
Headgate is ready (${engine}).

  webhooks  ${scheme}://${listen.host}:${listen.port}/webhook/<database>/<schema>/<table>
  SQL       ${psql}
  ${adminLine}

Try it: a table,

  ${psql} -c "
    CREATE TABLE orders (data JSONB) WITH (connector = 'webhook')
    VALIDATE AS secure_compare(headers->>'signature', 'test')"

a request,

  curl -H 'signature: test' -d '{"id": 1}' ${webhook}

and its row.

  ${psql} -c 'SELECT * FROM orders'

`;
}
