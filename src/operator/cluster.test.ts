/** The transport to an API server: deadlines, bounds, and malformed answers. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { KubeConfig } from '@kubernetes/client-node';
import { limits } from '../config/limits.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { ClusterError, openCluster } from './cluster.ts';
import type { WatchEvent } from './cluster.ts';

const quick = { ...limits, operatorRequestMs: 100, operatorWatchSeconds: 0, operatorAnswerBytesMax: 1_000 };
const never = new AbortController().signal;

async function clusterOf(t: TestContext, answer: RequestListener, bounds = quick) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onEnd(t, 'server', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const config = new KubeConfig();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/prefix/`;
  config.loadFromClusterAndUser(
    { name: 'c', server: url, skipTLSVerify: true },
    { name: 'u', token: 'secret' },
  );
  return openCluster(config, bounds);
}

const get = { method: 'GET', path: '/api/v1/x' } as const;
const failsWith = (status: number, message: RegExp) => (error: unknown) =>
  error instanceof ClusterError && error.status === status && message.test(error.message);

suite('the Kubernetes client bounds its calls', () => {
  test('the Kubernetes client sends its token, address and body as configured', async (t) => {
    const cluster = await clusterOf(
      t,
      (request, response) => {
        let text = '';
        request.setEncoding('utf8').on('data', (part: string) => (text += part));
        request.on('end', () => {
          const { authorization, 'content-type': type } = request.headers;
          response.end(
            JSON.stringify({ method: request.method, url: request.url, authorization, type, text }),
          );
        });
      },
      limits,
    );
    const query = { fieldManager: 'a b', force: 'true' };
    const asked = await cluster.request(
      { method: 'PATCH', path: '/x', query, body: { ö: 1 }, contentType: 'a/b' },
      never,
    );
    assert.deepEqual(asked, {
      method: 'PATCH',
      url: '/prefix/x?fieldManager=a+b&force=true',
      authorization: 'Bearer secret',
      type: 'a/b',
      text: '{"ö":1}',
    });
  });

  test('the Kubernetes client gives up a server that never answers or never ends its answer', async (t) => {
    const silent = await clusterOf(t, () => {});
    await assert.rejects(silent.request(get, never), failsWith(0, /does not answer/));
    const endless = await clusterOf(t, (_, response) => void response.writeHead(200).write('{'));
    await assert.rejects(endless.request(get, never), failsWith(0, /does not answer/));
    for (const cluster of [silent, endless]) {
      await assert.rejects(
        async () => {
          for await (const event of cluster.watch('/x', {}, never)) assert.fail(event.type);
        },
        failsWith(0, /does not answer/),
      );
    }
  });

  test('the Kubernetes client reports an answer that is too large, no JSON or of a proxy as an error', async (t) => {
    const large = await clusterOf(t, (_, response) => void response.end('"'.padEnd(2_000)));
    await assert.rejects(large.request(get, never), failsWith(0, /too large/));
    const line = await clusterOf(t, (_, response) => void response.write('{'.padEnd(2_000)));
    await assert.rejects(
      async () => {
        for await (const event of line.watch('/x', {}, never)) assert.fail(event.type);
      },
      failsWith(0, /too large/),
    );
    const html = await clusterOf(t, (_, response) => void response.end('<html>'));
    await assert.rejects(html.request(get, never), failsWith(0, /not JSON/));
    const proxy = await clusterOf(t, (_, response) => void response.writeHead(502).end('<html>bad gateway'));
    await assert.rejects(proxy.request(get, never), failsWith(502, /^the API server answered 502$/));
  });

  test('a Kubernetes watch yields each line, however it is cut, and ends with its server or reader', async (t) => {
    const text = `${JSON.stringify({ type: 'ADDED', object: { name: 'ö€😀' } })}\n`.repeat(3);
    const cluster = await clusterOf(t, (_, response) => {
      const bytes = Buffer.from(text);
      let at = 0;
      const next = () => {
        if (at >= bytes.length) return void response.end();
        response.write(bytes.subarray(at, (at += 7)), () => setImmediate(next));
      };
      next();
    });
    const seen: WatchEvent[] = [];
    for await (const event of cluster.watch('/x', {}, never)) seen.push(event);
    const wanted = { type: 'ADDED', object: { name: 'ö€😀' } };
    assert.deepEqual(seen, [wanted, wanted, wanted]);
    for await (const event of cluster.watch('/x', {}, never)) {
      assert.equal(event.type, 'ADDED');
      break;
    }
  });

  test('an abort signal ends a Kubernetes request at once, also one not yet begun', async (t) => {
    const stop = new AbortController();
    const cluster = await clusterOf(t, () => stop.abort());
    await assert.rejects(cluster.request(get, stop.signal), failsWith(0, /abort/));
    await assert.rejects(cluster.request(get, stop.signal), failsWith(0, /abort/));
  });
});
