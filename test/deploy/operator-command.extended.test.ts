/** `headgate operator` as a process: the kubeconfig, the probes, signals, and one line when there is no cluster. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { temporaryFolder } from '../support/headgate.ts';
import type { ApiServer } from '../support/kube/api-server.ts';
import { condition, createHeadgate, eventually, startApiServer } from '../support/kube/operators.ts';
import { run } from '../support/run.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

async function environment(t: TestContext, kubeConfig: string | null) {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'kubeconfig');
  if (kubeConfig !== null) await writeFile(path, kubeConfig, { mode: 0o600 });
  const settings = { HEADGATE_ADMIN_PORT: '0', HEADGATE_OPERATOR_IMAGE: 'headgate:test' };
  return {
    PATH: process.env['PATH'],
    HOME: folder,
    ...settings,
    ...(kubeConfig !== null && { KUBECONFIG: path }),
  };
}

async function startCommand(t: TestContext, server: ApiServer, identity: string) {
  const env = { ...(await environment(t, server.kubeConfigText())), HEADGATE_OPERATOR_IDENTITY: identity };
  const child = spawn(process.execPath, [cli, 'operator'], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once('close', (code, signal) => resolve({ code, signal })),
  );
  onEnd(t, identity, async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let log = '';
  const waiting = new Set<() => void>();
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
    for (const look of waiting) look();
  });
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      const look = () => {
        const found = pattern.exec(log);
        if (found === null) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
    });
  return { child, ended, says };
}

suite('headgate operator runs as a command', () => {
  test('headgate operator deploys, answers its probes, exits with 0 on SIGTERM and releases its lease', async (t) => {
    const server = await startApiServer(t);
    const first = await startCommand(t, server, 'first');
    await first.says(/operator\.leading/);
    const [, address] = await first.says(/"address":"([^"]+)"/);
    for (const path of ['healthz', 'readyz', 'metrics']) {
      assert.equal((await fetch(`http://${address}/${path}`)).status, 200, path);
    }
    createHeadgate(server, 'hooks', { enableWebhookListener: true });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Ready'), 'False NoPodReady'));
    first.child.kill('SIGTERM');
    assert.deepEqual(await first.ended, { code: 0, signal: null });
    const lease = server.store.get(server.where('Lease', 'headgate-operator', 'headgate-operator'));
    assert.equal((lease['spec'] as { holderIdentity?: string }).holderIdentity, undefined);
    const second = await startCommand(t, server, 'second');
    await second.says(/operator\.leading/);
  });

  test('headgate operator without a cluster prints one line and exits with 1', async (t) => {
    const none = await run(process.execPath, [cli, 'operator'], { env: await environment(t, null) });
    assert.equal(none.code, 1);
    assert.match(none.stderr, /^headgate: no Kubernetes cluster: set KUBECONFIG, or run in a pod[^\n]*\n$/);
    const broken = await run(process.execPath, [cli, 'operator'], {
      env: await environment(t, '{"clusters": ['),
    });
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /^headgate: the Kubernetes configuration cannot be read/);
  });
});
