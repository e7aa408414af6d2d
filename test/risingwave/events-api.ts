/**
 * Ours and the gateway that it is modelled on, side by side on one database: `EVENTS_API_BINARY=… npm run test:events-api`. events-api stands in
 * front of the SQL port, which has the relations of rw_catalog that it asks for. No part of the suite: the program is not.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startEventsApi } from '../support/events-api.ts';
import { startHeadgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { createTable, played } from './differences.ts';

const binary = process.env['EVENTS_API_BINARY'] ?? '';
if (binary === '') throw new Error('EVENTS_API_BINARY is to be the path of an events-api');

async function post(url: string, body: string): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(url, { method: 'POST', body });
  return { status: response.status, text: await response.text() };
}

suite("RisingWave's events-api and Headgate answer alike", () => {
  test("the quick start of RisingWave's events-api works in front of Headgate's SQL port", async (t) => {
    const headgate = await startHeadgate(t);
    const url = await startEventsApi(
      t,
      binary,
      `postgres://root@127.0.0.1:${headgate.ports.sql.port}/dev?sslmode=disable`,
    );
    const made = await post(
      `${url}/v1/sql`,
      `CREATE TABLE clickstream (user_id BIGINT, session_id STRING, page_url STRING, event_type STRING, timestamp TIMESTAMP, referrer STRING, device_type STRING)`,
    );
    assert.equal(made.status, 200, made.text);
    const event = (type: string, device: string) =>
      `{"user_id": 12345, "session_id": "s", "page_url": "/products/laptop", "event_type": "${type}", "timestamp": "2024-01-15 10:30:00", "referrer": "https://google.com", "device_type": "${device}"}`;
    // It looks for new tables every second.
    await until(
      async () =>
        (await post(`${url}/v1/events?name=clickstream`, event('page_view', 'desktop'))).status === 200,
    );
    const lines = [
      event('page_view', 'desktop'),
      event('click', 'desktop'),
      event('page_view', 'mobile'),
    ].join('\n');
    assert.equal((await post(`${url}/v1/events?name=clickstream`, lines)).status, 200);
    const asked = await post(
      `${url}/v1/sql`,
      "SELECT device_type, COUNT(*) as page_views FROM clickstream WHERE event_type = 'page_view' GROUP BY device_type ORDER BY 2",
    );
    assert.deepEqual((JSON.parse(asked.text) as { rows: unknown }).rows, [
      { device_type: 'mobile', page_views: 1 },
      { device_type: 'desktop', page_views: 2 },
    ]);
    // A column that is added later is found by the definition.
    await post(`${url}/v1/sql`, 'ALTER TABLE clickstream ADD COLUMN country STRING');
    const client = await headgate.client(t);
    await until(async () => {
      await post(`${url}/v1/events?name=clickstream`, '{"user_id": 1, "country": "NL"}');
      return (await client.query("SELECT 1 FROM clickstream WHERE country = 'NL'")).rows.length > 0;
    });
  });

  test("Headgate answers as RisingWave's events-api except for decided differences", async (t) => {
    const headgate = await startHeadgate(t);
    const theirs = await startEventsApi(
      t,
      binary,
      `postgres://root@127.0.0.1:${headgate.ports.sql.port}/dev?sslmode=disable`,
    );
    const client = await headgate.client(t);
    const sides = {
      theirs: { url: theirs, table: 'model' },
      ours: { url: headgate.gatewayUrl, table: 'own' },
    };
    for (const { url, table } of Object.values(sides))
      assert.equal((await post(`${url}/v1/sql`, createTable.replace(/\bT\b/, table))).status, 200);
    await until(async () => (await post(`${theirs}/v1/events?name=model`, '{}')).status === 200);
    await client.query('TRUNCATE model');
    for (const { path, query = 'T', body, decided } of played) {
      const answer = async ({ url, table }: (typeof sides)['ours']) => {
        const name = query.replace(/\bT\b/, table);
        const [base = '', more] = name.split('&');
        const target =
          query === '' ? '' : `?name=${encodeURIComponent(base)}${more === undefined ? '' : `&${more}`}`;
        const { status } = await post(
          `${url}/v1/${path}${path === 'events' ? target : ''}`,
          path === 'sql' ? body.replace(/\bT\b/, table) : body,
        );
        const { rows } = await client.query(`SELECT to_jsonb(t)::text AS row FROM ${table} t`);
        if (status !== 200 || path === 'events')
          await client.query(`TRUNCATE ${table}`).catch(() => undefined);
        return { status, rows: rows as unknown[] };
      };
      const [model, own] = [await answer(sides.theirs), await answer(sides.ours)];
      const shown = `${path} ${query} ${body}`;
      if (decided === undefined) {
        assert.deepEqual(own, model, shown);
        assert.equal(own.status, 200, shown);
      } else {
        assert.deepEqual([model.status, own.status], [decided.theirs, decided.ours], shown);
        const isAlike =
          model.status === own.status && JSON.stringify(model.rows) === JSON.stringify(own.rows);
        assert.ok(!isAlike, `${shown}: there is no difference any more`);
      }
    }
  });
});
