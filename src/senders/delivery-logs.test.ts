/** Logs of senders: which texts name one, and what their pages say. Examples are those of GitHub's OpenAPI document (@octokit/openapi 23.0.2). */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { deliveryIdOf } from './senders.ts';
import { logKinds, parseLog } from './delivery-logs.ts';

const item =
  '{"id":12345678,"guid":"0b989ba4-242f-11e5-81e1-c7b6966d2516","delivered_at":"2019-06-03T00:57:16Z","redelivery":false,"duration":0.27,"status":"OK","status_code":200,"event":"issues","action":"opened","installation_id":123,"repository_id":456,"throttled_at":"2019-06-03T00:57:16Z"}';

suite('delivery logs of senders are read', () => {
  test("the ids in a sender's delivery log are those that USING takes for dedupe", () => {
    for (const { sender, dedupe } of logKinds) {
      const known = deliveryIdOf(sender);
      assert.equal(known !== null && 'id' in known && known.id, dedupe);
    }
  });

  test('the name of a delivery log has one form, and leads to no other host', () => {
    for (const text of [
      'github:octo-org/hello.world/hooks/42',
      'github:orgs/acme/hooks/1',
      'stripe',
      'stripe:we_1AbC',
    ])
      assert.equal(parseLog(text)?.text, text);
    for (const text of [
      '',
      'github',
      'github:a/b',
      'github:a/b/hooks/0',
      'github:a/b/hooks/1/',
      'github:a/b/hooks/1?x',
      'github:a//hooks/1',
      'github:./b/hooks/1',
      'github:a/../hooks/1',
      'github:a/./hooks/1',
      'github:a%2f/b/hooks/1',
      'github:a/b\n/hooks/1',
      'stripe:',
      'stripe:we_',
      'stripe:we_1/x',
      'stripe:wh_1',
      'stripe:https://evil.example',
      'http://evil.example',
      'shopify',
      'GITHUB:a/b/hooks/1',
    ])
      assert.equal(parseLog(text), null, text);
  });

  test("GitHub's delivery log keeps the digits of ids, skips redeliveries, and uses only the cursor of the next URL", () => {
    const log = parseLog('github:octo-org/hello/hooks/42');
    assert.ok(log !== null);
    const body = `[${item.replace('12345678', '9223372036854775807')}, ${item.replace('"redelivery":false', '"redelivery":true')}]`;
    const link =
      '<https://evil.example/x?per_page=100&cursor=v1_12077215967>; rel="next", <https://api.github.com/y>; rel="first"';
    assert.deepEqual(log.read(Buffer.from(body), { link }, null), {
      deliveries: [
        {
          id: '0b989ba4-242f-11e5-81e1-c7b6966d2516',
          logId: '9223372036854775807',
          atMs: Date.parse('2019-06-03T00:57:16Z'),
        },
      ],
      cursor: 'v1_12077215967',
    });
    assert.equal(
      log.page('v1_12077215967', 0).path,
      '/repos/octo-org/hello/hooks/42/deliveries?per_page=100&cursor=v1_12077215967',
    );
    assert.deepEqual(log.again('9223372036854775807'), {
      method: 'POST',
      path: '/repos/octo-org/hello/hooks/42/deliveries/9223372036854775807/attempts',
    });
  });

  test("Stripe's event log gives each body byte by byte, and refuses entries that are no events", () => {
    const log = parseLog('stripe');
    assert.ok(log !== null);
    const event =
      '{ "id": "evt_1", "created": 1234567890, "type": "a", "n": 12345678901234567890, "data": [{"x":"]}"}] }';
    const page = (data: string, more = '') =>
      Buffer.from(`{"object":"list",${more} "data": [${data}], "has_more":true}`);
    const { deliveries, cursor } = log.read(page(event), {}, null);
    assert.equal(deliveries[0]?.body?.toString(), event);
    assert.equal(cursor, 'evt_1');
    assert.equal(log.read(page(event), {}, () => false).deliveries.length, 0);
    for (const wrong of [
      '[]',
      '{}',
      '{"data":{}}',
      '{"data":[1]}',
      '{"data":[{"id":"e\u0001","created":1}]}',
      '{"data":[{"id":"e","created":"x"}]}',
    ])
      assert.throws(() => log.read(Buffer.from(wrong), {}, null), /is no|is not|given/, wrong);
    // Of members with one name the last counts, as in jsonb.
    const twice = log.read(page(event, '"data":[1,2],'), {}, null);
    assert.deepEqual(
      twice.deliveries.map(({ body }) => body?.toString()),
      [event],
    );
  });
});
