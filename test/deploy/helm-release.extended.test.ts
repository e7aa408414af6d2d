/**
 * The real helm, rendering against a cluster (`--dry-run=server`, as install and upgrade render): what was generated
 * once is found there and kept. Releases themselves are not stored: helm speaks protobuf for that, the stand-in JSON. And
 * what a release has beside the operator's objects: alerts, dashboard, `helm test`, names.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import type { Manifest } from '../../src/operator/manifest.ts';
import { chartPath, manifestsIn, rendered, renderedTest } from '../support/chart.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { startApiServer } from '../support/kube/operators.ts';
import { requireKubeTool, runHelm } from '../support/kube-tools.ts';
import { schemaProblems } from '../support/kubernetes-schema.ts';
import { run } from '../support/run.ts';

const source = (path: string) => readFile(new URL(`../../../deploy/${path}`, import.meta.url), 'utf8');
const release = 'hooks-headgate';
const listener = { frontendComponent: { webhookListener: true } };
const id = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;

interface Groups {
  readonly groups: [{ readonly rules: readonly { readonly alert: string; readonly expr: string }[] }];
}

type Texts = Readonly<Record<string, string>>;

/** The pods that a Service or a workload calls its own; empty of an object that has none. */
function selectorOf(object: Manifest): readonly Texts[] {
  const { selector = {} } = (object['spec'] ?? {}) as { selector?: Record<string, string | Texts> };
  const { matchLabels = selector } = selector;
  return Object.keys(selector).length === 0 ? [] : [matchLabels as Texts];
}

suite('an upgrade of the chart keeps generated secrets', () => {
  test('an upgrade of the chart keeps the master key and the token of the cluster', async (t) => {
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

suite('the chart renders correct names, labels, alerts and tests', () => {
  test('the chart accepts numbers as release names and refuses names that no Service can have', async (t) => {
    const helm = await requireKubeTool(t, 'helm');
    if (helm === null) return;
    const template = (name: string, ...set: string[]) => {
      const values = set.flatMap((it) => ['--set-string', it]);
      return runHelm(helm, ['template', name, chartPath, '--namespace', '7', ...values]);
    };
    const { code, stdout, stderr } = await template('42', 'fullnameOverride=true', 'nameOverride=1');
    assert.equal(code, 0, stderr);
    for (const object of manifestsIn(stdout)) assert.deepEqual(await schemaProblems(object), [], id(object));
    for (const name of ['42', 'my.hooks']) {
      assert.match((await template(name)).stderr, /headgate is no name for a Service: set fullnameOverride/);
    }
  });

  test('the chart puts commonLabels and commonAnnotations on all objects, the labels on pods, and on no selector', async (t) => {
    const helm = await requireKubeTool(t, 'helm');
    if (helm === null) return;
    const values = {
      ...listener,
      commonLabels: { 'example.com/cost': '42' },
      commonAnnotations: { 'example.com/on': 'true' },
      gateway: { enabled: true },
      database: { url: 'postgres://a/b' },
      autoscaling: { enabled: true },
      ingress: { enabled: true, hosts: ['a.example'] },
      httpRoute: { enabled: true, parentRefs: [{ name: 'a' }] },
      ...Object.fromEntries(
        ['serviceMonitor', 'prometheusRule', 'grafanaDashboard'].map((name) => [name, { enabled: true }]),
      ),
    };
    const objects = [
      ...(await rendered(helm, release, values)),
      ...(await rendered(helm, release, {
        commonLabels: values.commonLabels,
        commonAnnotations: values.commonAnnotations,
      })),
      ...(await renderedTest(helm, release, values)).values(),
    ];
    assert.equal(new Set(objects.map(({ kind }) => kind)).size, 15);
    for (const object of objects) {
      assert.equal(object.metadata.labels['example.com/cost'], '42', id(object));
      assert.equal(object.metadata.annotations?.['example.com/on'], 'true', id(object));
      assert.deepEqual(await schemaProblems(object), [], id(object));
      const all = JSON.stringify(object);
      const pods = object.kind === 'StatefulSet' || object.kind === 'Deployment' ? 1 : 0;
      assert.equal(all.split('example.com/cost').length - 1, 1 + pods, id(object));
    }
  });

  test("the chart's alerts and dashboard are those of deploy/", async (t) => {
    const helm = await requireKubeTool(t, 'helm');
    if (helm === null) return;
    const values = { prometheusRule: { enabled: true }, grafanaDashboard: { enabled: true } };
    const objects = await rendered(helm, release, values);
    const rule = objects.find(({ kind }) => kind === 'PrometheusRule') as unknown as { spec: Groups };
    const { groups } = parse(await source('prometheus/alerts.yaml')) as Groups;
    assert.deepEqual(rule.spec.groups, groups);
    const dashboard = objects.find(({ kind }) => kind === 'ConfigMap');
    const { data } = dashboard as unknown as { data: Record<string, string> };
    assert.equal(data['headgate.json'], await source('grafana/headgate.json'));
    assert.equal(dashboard?.metadata.labels['grafana_dashboard'], '1');

    const other = await rendered(helm, release, {
      nameOverride: 'hooks',
      prometheusRule: { enabled: true, without: ['HeadgateMemory'], labels: { release: 'prometheus' } },
    });
    const named = other.find(({ kind }) => kind === 'PrometheusRule') as unknown as Manifest & {
      spec: Groups;
    };
    const left = groups[0].rules.filter(({ alert }) => alert !== 'HeadgateMemory');
    assert.equal(left.length, groups[0].rules.length - 1);
    assert.deepEqual(
      named.spec.groups[0].rules.map(({ expr }) => expr),
      left.map(({ expr }) => expr.replaceAll('job="headgate"', 'job="hooks"')),
    );
    assert.equal(named.metadata.labels['release'], 'prometheus');
    assert.match(JSON.stringify(named), /up\{job=\\"hooks\\"\}/);
  });

  test('the pod of helm test reaches the admin port, belongs to no Service, and is removed', async (t) => {
    const helm = await requireKubeTool(t, 'helm');
    if (helm === null) return;
    for (const nameOverride of ['', 'a'.repeat(63)]) {
      const made = await renderedTest(helm, release, { ...listener, nameOverride });
      const [pod, policy] = [made.get('Pod'), made.get('NetworkPolicy')];
      assert(pod !== undefined && policy !== undefined);
      const objects = await rendered(helm, release, { ...listener, nameOverride });
      const selectors = objects.flatMap(selectorOf);
      assert(selectors.length >= 2);
      for (const wanted of selectors) {
        assert(Object.entries(wanted).some(([name, value]) => pod.metadata.labels[name] !== value));
      }
      const { spec } = policy as unknown as {
        spec: { ingress: [{ from: [{ podSelector: object }]; ports: object }] };
      };
      const { 'app.kubernetes.io/managed-by': _, 'helm.sh/chart': __, ...labels } = pod.metadata.labels;
      assert.deepEqual(spec.ingress[0], {
        from: [{ podSelector: { matchLabels: labels } }],
        ports: [{ port: 4561, protocol: 'TCP' }],
      });
      for (const object of [pod, policy]) {
        assert.deepEqual(await schemaProblems(object), []);
        assert.equal(object.metadata.annotations?.['helm.sh/hook'], 'test');
        assert.match(object.metadata.annotations['helm.sh/hook-delete-policy'] ?? '', /hook-succeeded/);
      }
      assert.equal(policy.metadata.annotations?.['helm.sh/hook-weight'], '-1');
    }
    assert.deepEqual(
      [...(await renderedTest(helm, release, { networkPolicy: { enabled: false } })).keys()],
      ['Pod'],
    );
  });

  test("the chart's icon is icon.svg, which loads nothing from elsewhere", async () => {
    const { icon } = parse(await readFile(join(chartPath, 'Chart.yaml'), 'utf8')) as { icon: string };
    const svg = await readFile(join(chartPath, 'icon.svg'), 'utf8');
    assert.equal(icon, `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`);
    assert.doesNotMatch(svg.replace('xmlns="http://www.w3.org/2000/svg"', ''), /:\/\/|href|script|url\(/);
  });
});
