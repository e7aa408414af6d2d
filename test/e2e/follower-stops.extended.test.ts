/** A follower that stops within a batch gets on from the row at which it stopped. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createClient } from '../../src/client/client.ts';
import type { Client, FollowOptions } from '../../src/client/client.ts';
import { sharedHeadgate } from '../support/headgate.ts';

const shared = sharedHeadgate();

/** Reads so many rows and stops: their numbers, and the last position. */
async function some(
  client: Client,
  count: number,
  options: FollowOptions,
): Promise<{ readonly seen: readonly number[]; readonly position: string }> {
  const seen: number[] = [];
  for await (const { row, position } of client.follow<{ n: number }>('t', options)) {
    seen.push(row.n);
    if (seen.length === count) return { seen, position };
  }
  throw new Error('a stream does not end by itself');
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test('a stream reader that reconnects after every 50 rows reads each of 300 rows once', async (t: TestContext) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query('CREATE TABLE t (n INT); INSERT INTO t SELECT generate_series(1, 200)');
  const client = createClient({ url: headgate.gatewayUrl });
  const seen: number[] = [];
  let after = '0';
  for (let stop = 0; stop < 6; stop++) {
    if (stop === 2) await root.query('INSERT INTO t SELECT generate_series(201, 300)');
    const read = await some(client, 50, { after });
    seen.push(...read.seen);
    after = read.position;
  }
  assert.deepEqual(seen, numbers(1, 300));
  // With a position at every tenth row, the last three rows come again.
  const first = await some(client, 23, { after: '0', batch: 10 });
  assert.deepEqual((await some(client, 5, { after: first.position, batch: 10 })).seen, numbers(21, 25));
});

test('a stream without the parameter batch is unchanged, and a malformed batch is refused', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query('CREATE TABLE plain (n INT); INSERT INTO plain SELECT generate_series(1, 500)');
  const read = async (query: string): Promise<string> => {
    const leave = new AbortController();
    const url = `${headgate.gatewayUrl}/v1/events?name=plain&after=0${query}`;
    const response = await fetch(url, { headers: { accept: 'application/x-ndjson' }, signal: leave.signal });
    if (!response.ok) return response.text();
    let text = '';
    for await (const part of response.body ?? []) {
      text += Buffer.from(part as Uint8Array).toString();
      if (text.includes('"row":{"n":500}')) break;
    }
    leave.abort();
    return text;
  };
  const positions = (text: string) =>
    text.split('\n').filter((line) => /"position".*"row"/.test(line)).length;
  const [plain, stepped, each] = [await read(''), await read('&batch=199'), await read('&batch=1')];
  assert(positions(plain) <= 3, plain.slice(0, 500));
  assert(positions(stepped) >= 5 && positions(stepped) <= 8);
  assert.equal(positions(each), 500);
  for (const wrong of ['0', '10001', '-1', 'x'])
    assert.match(await read(`&batch=${wrong}`), /malformed_query/);
});
