/** What the specs of the matrix need in a real cluster to be admitted, and the content of deploy/ before this version. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { HeadgateSpec } from '../../../src/operator/resource.ts';
import { onEnd } from '../cleanup.ts';
import { temporaryFolder } from '../headgate.ts';
import { run } from '../run.ts';
import type { Kube } from './shipped.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));

/** Sets what the spec leaves to the user, for a namespace that accepts only `restricted` pods. */
export function restricted(spec: HeadgateSpec): HeadgateSpec {
  const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
  return {
    ...spec,
    ...(spec.podSecurityContext !== undefined && {
      podSecurityContext: { ...spec.podSecurityContext, seccompProfile: { type: 'RuntimeDefault' } },
    }),
    ...(spec.extraContainers !== undefined && {
      extraContainers: spec.extraContainers.map((it) => ({ ...(it as object), securityContext })),
    }),
  };
}

/** With the names used in the matrix; the classes belong to the cluster, and are removed with the test. */
export async function accountsAndClasses(t: TestContext, kube: Kube, namespace: string): Promise<void> {
  const accounts = ['mine', '123'].map((name) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name },
  }));
  await kube.apply(accounts, `--namespace=${namespace}`);
  const classes = ['important', '7'];
  const priority = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', value: 1 };
  await kube.apply(classes.map((name) => ({ ...priority, metadata: { name } })));
  onEnd(t, 'classes', async () => void (await kube.run('kubectl', ['delete', 'priorityclass', ...classes])));
}

/** A folder of deploy/, from the commit before its last change; null if git does not know it. */
export async function deployedBefore(t: TestContext, name: string): Promise<string | null> {
  const git = (...args: string[]) => run('git', ['-C', root, ...args]);
  const { code, stdout } = await git(
    'log',
    '--no-merges',
    '--format=%H',
    '--max-count=2',
    '--',
    `deploy/${name}`,
  );
  const [, commit = ''] = stdout.split('\n');
  if (code !== 0 || commit === '') return null;
  const folder = await temporaryFolder(t);
  const archive = join(folder, 'before.tar');
  await mkdir(join(folder, 'before'));
  assert.equal((await git('archive', `--output=${archive}`, `${commit}:deploy/${name}`)).code, 0);
  assert.equal((await run('tar', ['-xf', archive, '-C', join(folder, 'before')])).code, 0);
  t.diagnostic(`before: deploy/${name} of ${commit.slice(0, 7)}`);
  return join(folder, 'before');
}
