/** deploy/operator: what is applied to a cluster to have the operator, and the resource that people write. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import {
  completeSpec,
  defaults,
  managedEnvironment,
  problemsOf,
  reservedLabels,
} from '../../src/operator/resource.ts';
import type { HeadgateSpec } from '../../src/operator/resource.ts';
import { settingsTable } from '../../src/config/settings.ts';
import { chartPath, manifestsIn, specMatrix } from '../support/chart.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { eventually, startApiServer, startOperator } from '../support/kube/operators.ts';
import { headgateSchema } from '../support/kube/resources.ts';
import { conform } from '../support/kube/structural-schema.ts';
import type { Schema } from '../support/kube/structural-schema.ts';
import { wrongSpecs } from '../support/kube/wrong-specs.ts';
import { requireKubeTool } from '../support/kube-tools.ts';
import { schemaProblems } from '../support/kubernetes-schema.ts';
import { run } from '../support/run.ts';

const folder = fileURLToPath(new URL('../../../deploy/operator/', import.meta.url));
const read = (name: string) => readFileSync(join(folder, name), 'utf8');
const files = readdirSync(folder).filter((name) => !/^(kustomization|sample)/.test(name));
const objects = files.flatMap((name) => manifestsIn(read(name)));
const specSchema = headgateSchema.properties?.['spec'] as Schema;

suite('the manifests in deploy/operator are correct', () => {
  test('each manifest of deploy/operator matches the Kubernetes schemas', async () => {
    for (const object of objects) {
      assert.deepEqual(await schemaProblems(object), [], `${object.kind} ${object.metadata.name}`);
    }
  });

  test('kubectl kustomize renders all operator manifests', async (t) => {
    const kubectl = await requireKubeTool(t, 'kubectl');
    if (kubectl === null) return;
    const { code, stdout, stderr } = await run(kubectl, ['kustomize', folder]);
    assert.equal(code, 0, stderr);
    const names = (of: typeof objects) =>
      of.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted();
    assert.deepEqual(names(manifestsIn(stdout)), names(objects));
  });

  test("the operator's manifests and the chart name the image of the package's version", () => {
    const { version } = JSON.parse(readFileSync(join(folder, '../../package.json'), 'utf8')) as {
      version: string;
    };
    const chart = parse(readFileSync(join(chartPath, 'Chart.yaml'), 'utf8')) as Record<string, string>;
    assert.deepEqual([chart['version'], chart['appVersion']], [version, version]);
    const images = [...read('operator.yaml').matchAll(/headgate\/headgate:(\S+)/g)].map(([, tag]) => tag);
    assert.deepEqual(images, [version, version]);
    const settings = Object.values(settingsTable).map(({ env }) => env as string);
    for (const [, name = ''] of read('operator.yaml').matchAll(/name: (HEADGATE_\w+)/g)) {
      assert(settings.includes(name), name);
    }
  });

  test('the CRD knows every field that the operator knows, and no other', () => {
    assert.deepEqual(Object.keys(specSchema.properties ?? {}).toSorted(), Object.keys(defaults).toSorted());
    for (const [name, value] of Object.entries(defaults)) {
      const inner = specSchema.properties?.[name]?.properties;
      if (inner === undefined || value === null || name === 'resources') continue;
      assert.deepEqual(Object.keys(inner).toSorted(), Object.keys(value as object).toSorted(), name);
    }
    for (const [name, spec] of specMatrix()) {
      const problems: string[] = [];
      const kept = conform(spec, specSchema, 'spec', problems);
      assert.deepEqual(problems, [], name);
      assert.deepEqual(kept, JSON.parse(JSON.stringify(spec)), name);
    }
  });

  test('operator and CRD refuse an exposed SQL port without a password, and settings that are set twice', () => {
    const problems = (spec: HeadgateSpec) => problemsOf('hooks', completeSpec(spec)).join();
    const passwordSecret = { name: 'sql', key: 'password' };
    const databaseUrlSecret = { name: 'database', key: 'url' };
    assert.match(problems({ sql: { expose: true } }), /sql\.expose needs spec\.sql\.passwordSecret/);
    assert.equal(problems({ sql: { expose: true, passwordSecret } }), '');
    assert.equal(problems({ sql: { expose: true }, databaseUrlSecret }), '');
    assert.match(problems({ sql: { passwordSecret }, databaseUrlSecret }), /asks for passwords itself/);
    const doubled = {
      extraEnv: [
        { name: 'TZ', value: 'UTC' },
        { name: 'HEADGATE_INSECURE', value: 'true' },
      ],
    };
    assert.match(problems(doubled), /extraEnv must not set HEADGATE_INSECURE:/);
    const twice = { extraEnv: [{ name: 'TZ' }, { name: 'TZ' }] };
    assert.equal(problems(twice), 'spec.extraEnv has TZ twice');
    const rules = read('crd.yaml');
    assert.match(rules, /!self\.sql\.expose \|\| has\(self\.sql\.passwordSecret\)/);
    const listed = /it\.name in \[([^\]]*)\]/.exec(rules)?.[1] ?? '';
    assert.deepEqual(
      [...listed.matchAll(/'(\w+)'/g)].map(([, name]) => name),
      managedEnvironment,
    );
  });

  test('operator and CRD refuse impossible routes, node ports and reserved labels', () => {
    const problems = (spec: HeadgateSpec) => problemsOf('hooks', completeSpec(spec)).join();
    const httpRoute = { parentRefs: [{ name: 'outside' }] };
    assert.match(problems({ httpRoute }), /httpRoute needs spec\.enableWebhookListener/);
    assert.match(problems({ httpRoute: {}, enableWebhookListener: true }), /needs at least one Gateway/);
    assert.equal(problems({ httpRoute, enableWebhookListener: true }), '');
    const nodePorts = { webhook: 30_080, sql: 30_080 };
    assert.match(problems({ nodePorts }), /nodePorts need another spec\.service\.type.*must differ/);
    assert.equal(problems({ nodePorts: { webhook: 30_080 }, service: { type: 'LoadBalancer' } }), '');
    const rules = specSchema.properties as Record<
      string,
      { 'x-kubernetes-validations'?: [{ rule: string }] }
    >;
    const ofMonitor = specSchema.properties?.['serviceMonitor']?.properties as typeof rules;
    for (const name of reservedLabels) {
      const labels = { [name]: 'x' };
      for (const spec of [{ commonLabels: labels }, { podLabels: labels }, { serviceMonitor: { labels } }])
        assert.match(problems(spec), new RegExp(`labels must not set ${name}:`));
    }
    const wanted = reservedLabels.map((name) => `!('${name}' in self)`).join(' && ');
    for (const of of [rules['commonLabels'], rules['podLabels'], ofMonitor['labels']])
      assert.equal(of?.['x-kubernetes-validations']?.[0].rule, wanted);
  });

  test("the CRD's schema refuses invalid resources", () => {
    for (const [spec, says] of wrongSpecs) {
      const problems: string[] = [];
      conform(spec, specSchema, 'spec', problems);
      assert.match(problems.join(), says);
    }
  });

  test("the CRD's schema is structural: each part has a type or is int-or-string", () => {
    const walk = (schema: Schema, path: string) => {
      const isAnything = schema['x-kubernetes-int-or-string'] === true;
      assert(isAnything || schema.type !== undefined, path);
      for (const [name, inner] of Object.entries(schema.properties ?? {})) walk(inner, `${path}.${name}`);
      if (schema.additionalProperties !== undefined) walk(schema.additionalProperties, `${path}.*`);
      if (schema.items !== undefined) walk(schema.items, `${path}[]`);
      if (schema.type === 'array') assert(schema.items !== undefined, path);
    };
    walk(headgateSchema, '');
  });

  test('the operator deploys the sample applied by kubectl', async (t) => {
    const kubectl = await requireKubeTool(t, 'kubectl');
    if (kubectl === null) return;
    const server = await startApiServer(t);
    server.isOpen = true;
    startOperator(t, server);
    const home = await temporaryFolder(t);
    await writeFile(join(home, 'kubeconfig'), server.kubeConfigText(), { mode: 0o600 });
    const env = { PATH: process.env['PATH'], HOME: home, KUBECONFIG: join(home, 'kubeconfig') };
    const apply = [
      'apply',
      '--server-side',
      '--validate=false',
      '--namespace=hooks',
      '-f',
      join(folder, 'sample.yaml'),
    ];
    const applied = await run(kubectl, apply, { env });
    assert.equal(applied.code, 0, applied.stderr);
    await eventually(server, () => {
      assert(server.object('StatefulSet', 'hooks') !== null);
      assert.match(JSON.stringify(server.object('Service', 'hooks')), /4560/);
    });
    const get = await run(kubectl, ['get', 'headgates', '--namespace=hooks', '-o', 'name'], { env });
    assert.equal(get.stdout.trim(), 'headgate.headgate.dev/hooks');
    const gone = await run(kubectl, ['delete', 'headgate', 'hooks', '--namespace=hooks', '--wait=false'], {
      env,
    });
    assert.equal(gone.code, 0, gone.stderr);
    await eventually(server, () => assert.equal(server.object('Headgate', 'hooks'), null));
  });
});
