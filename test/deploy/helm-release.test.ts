/**
 * The real helm, rendering against a cluster (`--dry-run=server`, as install and upgrade render): what was generated
 * once is found there and kept. Releases themselves are not stored: helm speaks protobuf for that, the stand-in JSON.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { chartPath, manifestsIn } from '../support/chart.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { startApiServer } from '../support/kube/operators.ts';
import { requireKubeTool } from '../support/kube-tools.ts';
import { run } from '../support/run.ts';

suite('an upgrade of the chart', () => {
  test('keeps the master key and the token that are in the cluster, whatever else changes', async (t) => {
    const helm = await requireKubeTool(t, 'helm');
    if (helm === null) return;
    const server = await startApiServer(t);
    server.isOpen = true;
    const folder = await temporaryFolder(t);
    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(kubeconfig, server.kubeConfigText(), { mode: 0o600 });
    const env = { PATH: process.env['PATH'], HOME: folder, KUBECONFIG: kubeconfig };
    const secretsWith = async (...values: string[]) => {
      const set = values.flatMap((value) => ['--set', value]);
      const args = [
        'template',
        'hooks-headgate',
        chartPath,
        '--namespace',
        'hooks',
        '--dry-run=server',
        ...set,
      ];
      const { code, stdout, stderr } = await run(helm, args, { env });
      assert.equal(code, 0, stderr);
      return manifestsIn(stdout).filter(({ kind }) => kind === 'Secret');
    };
    const first = await secretsWith('gateway.enabled=true');
    assert.deepEqual(first.map(({ metadata }) => metadata.name).toSorted(), [
      'hooks-headgate-gateway',
      'hooks-headgate-master-key',
    ]);
    // Without a cluster that has them, each rendering makes others.
    assert.notDeepEqual(await secretsWith('gateway.enabled=true'), first);
    const { resource } = server.where('Secret', '');
    for (const secret of first) server.store.create(resource, 'hooks', secret as never, 'helm');
    assert.deepEqual(await secretsWith('gateway.enabled=true'), first);
    const other = await secretsWith(
      'gateway.enabled=true',
      'frontendComponent.webhookListener=true',
      'sql.expose=true',
      'sql.existingSecret=root',
    );
    assert.deepEqual(other, first);
    const brought = await secretsWith('masterKey.existingSecret=mine');
    assert.deepEqual(brought, []);
  });
});
