// The service that most people write by hand: Fastify, a signature check on the raw body, and one INSERT per request through a pool of `pg`. Prints its
// port. `fastify.mjs SECRET CONFIG TABLE POOL prepared|plain`.
import { createHmac, timingSafeEqual } from 'node:crypto';
import fastify from 'fastify';
import pg from 'pg';

const [secret, config, table, max, form] = process.argv.slice(2);
const pool = new pg.Pool({ ...JSON.parse(config), max: Number(max) });
const text = `INSERT INTO ${table} (data) VALUES ($1)`;

const app = fastify({ logger: false });
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
  done(null, body),
);
app.post('/', async (request, reply) => {
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(request.body).digest('hex')}`);
  const given = Buffer.from(String(request.headers['x-hub-signature-256']));
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return reply.code(401).send();
  const values = [request.body.toString()];
  await pool.query(form === 'prepared' ? { name: 'insert', text, values } : { text, values });
  return { rows: 1 };
});
const address = await app.listen({ port: 0, host: '127.0.0.1' });
process.stdout.write(`${new URL(address).port}\n`);
process.on('SIGTERM', () => {
  app.server.closeAllConnections();
  void app.close().then(() => pool.end());
});
