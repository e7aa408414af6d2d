/** The Helm chart, rendered by the real helm: what the specification asks for, what is refused, and golden manifests. */
import assert from 'node:assert/strict';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { limits } from '../../src/config/limits.ts';
import { manifestsOf } from '../../src/operator/manifests.ts';
import type { Manifest } from '../../src/operator/manifest.ts';
import { managedEnvironment, reservedLabels } from '../../src/operator/resource.ts';
import { settingsTable } from '../../src/config/settings.ts';
import {
  chartDeployment,
  chartPath,
  helmTemplate,
  manifestsIn,
  rendered,
  specMatrix,
  valuesOf,
} from '../support/chart.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { requireKubeTool, runHelm } from '../support/kube-tools.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { schemaProblems } from '../support/kubernetes-schema.ts';

const golden = fileURLToPath(new URL('../../../test/deploy/golden/', import.meta.url));
const release = 'hooks-headgate';
const listener = { frontendComponent: { webhookListener: true } };

interface Container {
  readonly env: readonly { name: string; value?: string }[];
  readonly ports: readonly { name: string; containerPort: number }[];
}
const byName = (objects: readonly Manifest[]) => objects.toSorted((a, b) => id(a).localeCompare(id(b), 'en'));
const id = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;

function containerOf(objects: readonly Manifest[]): Container {
  const workload = objects.find(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
  const { spec } = workload as unknown as { spec: { template: { spec: { containers: [Container] } } } };
  return spec.template.spec.containers[0];
}
const envOf = (objects: readonly Manifest[]) =>
  Object.fromEntries(containerOf(objects).env.map(({ name, value }) => [name, value]));

const matrix = sampleOf([...specMatrix()], 5);

/** It is rendered once, for all who look at it. */
const once = new Map<string, Promise<Manifest[]>>();
async function* renderedMatrix(helm: string) {
  for (const [name, spec] of matrix) {
    const objects = once.get(name) ?? rendered(helm, release, valuesOf(spec));
    once.set(name, objects);
    yield { name, spec, objects: await objects };
  }
}

async function helmOf(t: TestContext): Promise<string> {
  const helm = await requireKubeTool(t, 'helm');
  if (helm === null) throw new Error('skipped');
  return helm;
}

suite(
  'the Helm chart renders correct manifests',
  { skip: process.platform !== 'linux' || process.arch !== 'x64' },
  () => {
    test('helm lint accepts the chart', async (t) => {
      const helm = await helmOf(t);
      const { code, stdout, stderr } = await runHelm(helm, ['lint', '--strict', chartPath]);
      assert.equal(code, 0, stdout + stderr);
      assert.doesNotMatch(stdout, /WARNING|ERROR/);
    });

    test('the chart value frontendComponent.webhookListener opens port 4560 of the Service and starts the listener', async (t) => {
      const helm = await helmOf(t);
      const on = await rendered(helm, release, listener);
      const service = on.find(({ kind, metadata }) => kind === 'Service' && metadata.name === release);
      assert.deepEqual((service as unknown as { spec: { ports: unknown } }).spec.ports, [
        { name: 'webhook', port: 4560, targetPort: 'webhook', protocol: 'TCP' },
      ]);
      assert.equal(envOf(on)['HEADGATE_LISTEN_ENABLED'], 'true');
      assert.equal(envOf(on)['HEADGATE_LISTEN_PORT'], '4560');
      assert.deepEqual(containerOf(on).ports.find(({ name }) => name === 'webhook')?.containerPort, 4560);
      for (const values of [{}, { frontendComponent: { webhookListener: false } }]) {
        const off = await rendered(helm, release, values);
        assert.equal(envOf(off)['HEADGATE_LISTEN_ENABLED'], 'false');
        assert.doesNotMatch(JSON.stringify(off), /4560|"webhook"/);
      }
    });

    test('the chart renders the same objects as the operator applies for each specification of the matrix', async (t) => {
      const helm = await helmOf(t);
      for await (const { name, spec, objects } of renderedMatrix(helm)) {
        const wanted = manifestsOf(chartDeployment(release, spec));
        const made = byName(objects.filter(({ kind }) => kind !== 'Secret'));
        assert.deepEqual(made, byName(wanted), name);
        const kept = objects.filter(({ kind }) => kind === 'Secret').map(({ metadata }) => metadata.name);
        const generated = [
          ...(spec.gateway?.enabled === true && !spec.gateway.tokenSecret ? [`${release}-gateway`] : []),
          ...(spec.masterKeySecret ? [] : [`${release}-master-key`]),
        ];
        assert.deepEqual(kept.toSorted(), generated, name);
      }
    });

    test('each object that the chart renders matches the Kubernetes schemas', async (t) => {
      const helm = await helmOf(t);
      for await (const { name, objects } of renderedMatrix(helm)) {
        for (const object of objects) {
          assert.deepEqual(await schemaProblems(object), [], `${name}: ${id(object)}`);
        }
      }
    });

    test('the Kubernetes schema check finds unknown fields and wrong types', async () => {
      const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: {} };
      assert.deepEqual(await schemaProblems(service), []);
      assert.match(
        (await schemaProblems({ ...service, spec: { ports: [{ port: 1, tragetPort: 1 }] } } as never)).join(),
        /tragetPort is not a field of V1ServicePort/,
      );
      assert.match(
        (await schemaProblems({ ...service, spec: { ports: [{ port: '1' }] } } as never)).join(),
        /ports\/0\/port: type/,
      );
      assert.match((await schemaProblems({ ...service, spec: { ports: [{}] } } as never)).join(), /required/);
      const route = { ...service, apiVersion: 'gateway.networking.k8s.io/v1', kind: 'HTTPRoute' };
      const rules = [{ matches: [{ path: { type: 'Prefix', value: '/' } }], backendRef: [] }];
      assert.match((await schemaProblems(route)).join(), /^$/);
      assert.match(
        (await schemaProblems({ ...route, spec: { rules } } as never)).join(),
        /type: must be one of .*unknown/,
      );
    });

    test('the chart sets existing settings only, and its grace period leaves time for the drain', async (t) => {
      const helm = await helmOf(t);
      const settings = new Set<string>(Object.values(settingsTable).map(({ env }) => env));
      for await (const { objects } of renderedMatrix(helm)) {
        for (const { name } of containerOf(objects).env) {
          assert(settings.has(name) || /^(EVENTS_API_(HOST|PORT|TOKEN)|TZ)$/.test(name), name);
        }
        const workload = objects.find(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
        const pod = (workload as unknown as { spec: { template: { spec: Record<string, unknown> } } }).spec
          .template.spec;
        const preStop = Number(/"sleep","(\d+)"/.exec(JSON.stringify(pod))?.[1]);
        const leftMs = (Number(pod['terminationGracePeriodSeconds']) - preStop) * 1_000;
        assert(leftMs > limits.drainMs + limits.engineStopMs, `${leftMs} ms`);
      }
    });

    test('the chart refuses unknown and wrong values with a sentence', async (t) => {
      const helm = await helmOf(t);
      const wrong: [values: object, says: RegExp][] = [
        [{ unknown: 1 }, /Additional property unknown is not allowed/],
        [{ frontendComponent: { webhooklistener: true } }, /Additional property webhooklistener/],
        [{ frontendComponent: { webhookListener: 'true' } }, /webhookListener: Invalid type/],
        [{ storage: { sizes: '1Gi' } }, /Additional property sizes/],
        [{ ports: { webhook: 80 } }, /greater than or equal to 1024/],
        [{ ports: { webhook: 4567 } }, /ports must differ/],
        [{ sql: { expose: true } }, /sql\.expose needs sql\.existingSecret/],
        [{ sql: { existingSecret: 's' }, database: { existingSecret: 'd' } }, /asks for passwords itself/],
        [
          { extraEnv: [{ name: 'HEADGATE_LOG_LEVEL', value: 'debug' }] },
          /extraEnv must not set HEADGATE_LOG_LEVEL/,
        ],
        [{ extraEnv: [{ name: 'HEADGATE_GATEWAY_PORT', value: 1 }] }, /must not set HEADGATE_GATEWAY_PORT/],
        [{ extraEnv: [{ name: 'TZ' }, { name: 'TZ' }] }, /extraEnv has TZ twice/],
        ...['commonLabels', 'podLabels'].flatMap((value): [object, RegExp][] =>
          reservedLabels.map((name) => [
            { [value]: { [name]: 'x' } },
            new RegExp(`${value} must not set ${name}:`),
          ]),
        ),
        [{ grafanaDashboard: { labels: { 'helm.sh/chart': 'x' } } }, /grafanaDashboard.labels must not set/],
        [{ commonLabels: { a: 'b c' } }, /does not match pattern/i],
        // With a hook's, or with any policy but `keep`, helm leaves the objects behind when the release goes.
        ...['hook', 'resource-policy'].map((name): [object, RegExp] => [
          { commonAnnotations: { [`helm.sh/${name}`]: 'test' } },
          new RegExp(`commonAnnotations must not set helm.sh/${name}:`),
        ]),
        [{ livenessProbe: null }, /livenessProbe is required/],
        [{ readinessProbe: { periodSeconds: null } }, /periodSeconds is required/],
        [{ commonLabels: { a: 1 } }, /Expected: string, given: integer/],
        [{ ...listener, nodePorts: { webhook: 30_000 } }, /nodePorts need service.type=NodePort/],
        [
          { service: { type: 'NodePort' }, nodePorts: { webhook: 30_000, sql: 30_000 } },
          /nodePorts must differ/,
        ],
        [
          { httpRoute: { enabled: true, parentRefs: [{ name: 'a' }] } },
          /needs frontendComponent.webhookListener/,
        ],
        [{ ...listener, httpRoute: { enabled: true } }, /at least one Gateway in httpRoute.parentRefs/],
        [{ readinessProbe: { httpGet: {} } }, /Additional property httpGet/],
        [{ livenessProbe: { periodSeconds: 0 } }, /greater than or equal to 1/],
        [{ prometheusRule: { enabled: true, without: ['HeadgateUp'] } }, /HeadgateUp, which is no alert/],
        [{ access: { addressRate: 'often' } }, /does not match pattern/i],
        [{ database: { url: 'mysql://x' } }, /does not match pattern/i],
        [{ database: { url: 'postgres://x/y', existingSecret: 'z' } }, /not both/],
        [{ replicas: 2 }, /replicas above 1 need an external database/],
        [{ autoscaling: { enabled: true } }, /autoscaling needs an external database/],
        [
          { ingress: { enabled: true, hosts: ['a.example'] } },
          /needs frontendComponent.webhookListener=true/,
        ],
        [{ ...listener, ingress: { enabled: true } }, /at least one name in ingress.hosts/],
        [{ terminationGracePeriodSeconds: 20 }, /at least preStopSeconds \+ 20/],
      ];
      t.diagnostic(sampleSeed);
      for (const [values, says] of sampleOf(wrong, 8)) {
        const { code, stderr } = await helmTemplate(helm, release, values);
        assert.notEqual(code, 0, JSON.stringify(values));
        assert.match(stderr, says);
      }
    });

    test("the chart's values.yaml and values.schema.json have the same properties", async () => {
      const values = parse(await readFile(join(chartPath, 'values.yaml'), 'utf8')) as Record<string, object>;
      const schema = JSON.parse(await readFile(join(chartPath, 'values.schema.json'), 'utf8')) as {
        properties: Record<string, { properties?: Record<string, unknown> }>;
      };
      const { global: _, ...properties } = schema.properties;
      assert.deepEqual(Object.keys(properties).toSorted(), Object.keys(values).toSorted());
      for (const [name, { properties: inner }] of Object.entries(properties)) {
        if (inner === undefined || name === 'resources') continue;
        assert.deepEqual(Object.keys(inner).toSorted(), Object.keys(values[name] ?? {}).toSorted(), name);
      }
    });

    test('the chart quotes numbers of extraEnv, uses global.imageRegistry, and lists all variables that it manages', async (t) => {
      const helm = await helmOf(t);
      const values = {
        global: { imageRegistry: 'registry.example:5000/' },
        extraEnv: [
          { name: 'HEADGATE_REJECTED_ROWS_MAX', value: 1_000_000 },
          { name: 'HEADGATE_SQL_TLS_OPTIONAL', value: true },
          { name: 'HEADGATE_WEBSOCKET_ORIGINS', valueFrom: { secretKeyRef: { name: 'o', key: 'k' } } },
        ],
      };
      const objects = await rendered(helm, release, values);
      const env = envOf(objects);
      assert.equal(env['HEADGATE_REJECTED_ROWS_MAX'], '1000000');
      assert.equal(env['HEADGATE_SQL_TLS_OPTIONAL'], 'true');
      assert.match(JSON.stringify(objects), /"image":"registry\.example:5000\/headgate\/headgate:/);
      for (const object of objects) assert.deepEqual(await schemaProblems(object), []);
      const helpers = await readFile(join(chartPath, 'templates/_helpers.tpl'), 'utf8');
      const listed = /headgate\.managedEnvironment" -\}\}\n(.*)\n/.exec(helpers)?.[1]?.split(' ');
      assert.deepEqual(listed, managedEnvironment);
      for await (const { spec, objects: made } of renderedMatrix(helm)) {
        const extra = (spec.extraEnv ?? []).map((it) => (it as { name: string }).name);
        const own = containerOf(made).env.filter(({ name }) => !extra.includes(name));
        assert.deepEqual(
          own.filter(({ name }) => !managedEnvironment.includes(name)),
          [],
        );
      }
      // A setting is managed under every name that it has, and as a file.
      for (const { env: name, alias } of Object.values(settingsTable)) {
        const names = [name, alias ?? name, name.replace(/_FILE$/, '')].map((it) =>
          managedEnvironment.includes(it),
        );
        assert(new Set(names).size === 1, name);
      }
    });

    test('the chart renders database.url into a Secret and nowhere else', async (t) => {
      const helm = await helmOf(t);
      const url = 'postgresql://headgate:pass%2Fword@db.example:5432/hooks';
      const objects = await rendered(helm, release, { ...listener, database: { url } });
      const secret = objects.find(({ metadata }) => metadata.name === `${release}-database`);
      const { data } = secret as unknown as { data: Record<string, string> };
      assert.equal(Buffer.from(data['url'] ?? '', 'base64').toString(), url);
      assert.doesNotMatch(JSON.stringify(objects.filter((it) => it !== secret)), /pass/);
      assert.deepEqual(await schemaProblems(secret as Manifest), []);
      const changed = await rendered(helm, release, { ...listener, database: { url: `${url}2` } });
      const pods = (of: readonly Manifest[]) => JSON.stringify(of.find(({ kind }) => kind === 'Deployment'));
      assert.notEqual(pods(objects), pods(changed));
    });

    test('chart values with any characters are rendered as data', async (t) => {
      const helm = await helmOf(t);
      const text = 'a: b\nhostNetwork: true\n"{{ fail 1 }}\'';
      const objects = await rendered(helm, release, {
        ...listener,
        image: { repository: text, tag: text },
        serviceAccount: { name: text },
        tls: { listenerSecret: text, sqlSecret: text, gatewaySecret: text },
        commonAnnotations: { a: text },
        clusterDomain: text,
        gateway: { enabled: true },
        sql: { expose: true, existingSecret: 'password' },
      });
      const found = JSON.stringify(objects);
      assert.doesNotMatch(found, /"hostNetwork"/);
      assert.equal(found.split(JSON.stringify(text)).length > 10, true);
    });

    test('the chart generates a new master key of 32 bytes for each release and keeps it at uninstall', async (t) => {
      const helm = await helmOf(t);
      const keys = new Set<string>();
      for (let i = 0; i < 2; i++) {
        const objects = await rendered(helm, release, {});
        const secret = objects.find(({ metadata }) => metadata.name === `${release}-master-key`);
        const { data, metadata } = secret as unknown as Manifest & { data: Record<string, string> };
        const text = Buffer.from(data['master-key'] ?? '', 'base64').toString();
        assert.equal(Buffer.from(text, 'base64').length, 32);
        assert.equal(metadata.annotations?.['helm.sh/resource-policy'], 'keep');
        keys.add(text);
      }
      assert.equal(keys.size, 2);
    });

    test("the chart's notes show the endpoint and a first request, or how to open the listener", async (t) => {
      const helm = await helmOf(t);
      // `helm template` leaves the notes out; beside the chart's own templates one that includes them does not.
      const chart = await temporaryFolder(t);
      await cp(chartPath, chart, { recursive: true });
      await writeFile(
        join(chart, 'templates/probe.yaml'),
        'notes: {{ include "headgate.notes" . | toJson }}\n',
      );
      const notes = async (values: object) => {
        const args = [
          'template',
          release,
          chart,
          '--namespace',
          'hooks',
          '--show-only',
          'templates/probe.yaml',
        ];
        const { stdout, stderr } = await runHelm(helm, [...args, '--values', '-'], JSON.stringify(values));
        return (manifestsIn(stdout)[0] as unknown as { notes: string } | undefined)?.notes ?? stderr;
      };
      const on = await notes(listener);
      assert.match(on, /http:\/\/hooks-headgate\.hooks\.svc\.cluster\.local:4560\/webhook\//);
      assert.match(on, /curl/);
      assert.match(on, /port-forward statefulset\/hooks-headgate 4567/);
      assert.match(on, /helm test hooks-headgate --namespace hooks/);
      const outside = await notes({
        ...listener,
        service: { type: 'NodePort' },
        nodePorts: { webhook: 30_080 },
        httpRoute: { enabled: true, parentRefs: [{ name: 'a' }], hostnames: ['hooks.example'] },
      });
      assert.match(outside, /<any node>:30080\/webhook\/[^]*hooks\.example, path \/webhook\//);
      const off = await notes({ database: { existingSecret: 'db' } });
      assert.match(off, /--set frontendComponent\.webhookListener=true/);
      assert.match(off, /port-forward deployment\/hooks-headgate/);
      assert.doesNotMatch(off, /4560|curl/);
    });

    test('the chart renders its golden manifests', async (t) => {
      const helm = await helmOf(t);
      const external = { ...listener, replicas: 2, database: { existingSecret: 'hooks-database' } };
      for (const [name, values] of Object.entries({ default: {}, listener, external })) {
        const { stdout } = await helmTemplate(helm, release, values);
        const text = stdout.replace(/^( {2}master-key): .{44,}$/m, '$1: GENERATED');
        const file = join(golden, `${name}.yaml`);
        if (process.env['HEADGATE_TEST_WRITE_GOLDEN'] === 'true') await writeFile(file, text);
        assert.equal(
          text,
          await readFile(file, 'utf8'),
          `${name}: HEADGATE_TEST_WRITE_GOLDEN=true writes it again`,
        );
      }
    });
  },
);
