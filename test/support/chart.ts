/** The Helm chart for tests: rendered by the real helm, and configured in the terms of the `Headgate` resource. */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { completeSpec, defaults } from '../../src/operator/resource.ts';
import type { CompleteSpec, HeadgateSpec, SecretRef } from '../../src/operator/resource.ts';
import type { Manifest } from '../../src/operator/manifest.ts';
import { runHelm } from './kube-tools.ts';
import type { Ran } from './run.ts';

export const chartPath = fileURLToPath(new URL('../../../deploy/helm/headgate', import.meta.url));

/** Renders with only the given values over values.yaml, and without what `helm test` runs. */
export function helmTemplate(helm: string, release: string, values: object): Promise<Ran> {
  return template(helm, release, values, '--skip-tests');
}

function template(helm: string, release: string, values: object, ...flags: string[]): Promise<Ran> {
  const args = ['template', release, chartPath, '--namespace', 'hooks', ...flags, '--values', '-'];
  return runHelm(helm, args, JSON.stringify(values));
}

export async function rendered(helm: string, release: string, values: object): Promise<Manifest[]> {
  const { code, stdout, stderr } = await helmTemplate(helm, release, values);
  assert.equal(code, 0, stderr);
  return manifestsIn(stdout);
}

/** What `helm test` runs, by kind. */
export async function renderedTest(
  helm: string,
  release: string,
  values: object,
): Promise<ReadonlyMap<string, Manifest>> {
  const args = ['--show-only', 'templates/tests/ready.yaml'];
  const { code, stdout, stderr } = await template(helm, release, values, ...args);
  assert.equal(code, 0, stderr);
  return new Map(manifestsIn(stdout).map((it) => [it.kind, it]));
}

export function manifestsIn(yaml: string): Manifest[] {
  const documents = parseAllDocuments(yaml, { strict: true, uniqueKeys: true });
  assert(Array.isArray(documents), 'a stream of documents');
  return documents
    .map((document) => {
      assert.deepEqual(document.errors, []);
      return document.toJS() as Manifest | null;
    })
    .filter((manifest) => manifest !== null);
}

/** The chart's values equivalent to a `spec` for the operator. */
export function valuesOf(spec: HeadgateSpec): object {
  const { enableWebhookListener, image, imagePullPolicy, ...rest } = completeSpec(spec);
  const {
    databaseUrlSecret,
    masterKeySecret,
    sql,
    gateway,
    autoscaling,
    ingress,
    httpRoute,
    paused: _,
    ...same
  } = rest;
  const { name, ...tag } = imageParts(image);
  return {
    ...same,
    resources: instead(defaults.resources, same.resources),
    podSecurityContext: instead(defaults.podSecurityContext, same.podSecurityContext),
    frontendComponent: { webhookListener: enableWebhookListener },
    image: { repository: name, ...tag, pullPolicy: imagePullPolicy },
    ...(databaseUrlSecret !== null && { database: existing(databaseUrlSecret) }),
    ...(masterKeySecret !== null && { masterKey: existing(masterKeySecret) }),
    sql: { expose: sql.expose, ...(sql.passwordSecret !== null && existing(sql.passwordSecret)) },
    gateway: {
      enabled: gateway.enabled,
      ...(gateway.tokenSecret !== null && existing(gateway.tokenSecret)),
    },
    ...(autoscaling !== null && { autoscaling: { enabled: true, ...autoscaling } }),
    ...(ingress !== null && { ingress: { enabled: true, ...ingress } }),
    ...(httpRoute !== null && { httpRoute: { enabled: true, ...httpRoute } }),
  };
}

/** Helm merges given values into its own; a null removes a value. */
const instead = (own: object, given: object) => ({
  ...Object.fromEntries(Object.keys(own).map((key) => [key, null])),
  ...given,
});

const existing = ({ name, key }: SecretRef) => ({ existingSecret: name, key });

function imageParts(image: string): { name: string; tag?: string; digest?: string } {
  const [name = '', digest] = image.split('@');
  if (digest !== undefined) return { name, digest };
  const colon = name.lastIndexOf(':');
  return { name: name.slice(0, colon), tag: name.slice(colon + 1) };
}

/** Specs that together switch everything on and off; an API server would accept each of them. */
export function specMatrix(): ReadonlyMap<string, HeadgateSpec> {
  const image = 'images.example/headgate:1.2.3';
  const databaseUrlSecret = { name: 'orders-database', key: 'dsn' };
  const everything: HeadgateSpec = {
    image: `images.example:5000/headgate@sha256:${'ab'.repeat(32)}`,
    imagePullPolicy: 'Always',
    imagePullSecrets: [{ name: 'registry' }],
    enableWebhookListener: true,
    databaseUrlSecret,
    masterKeySecret: { name: 'sealing', key: 'key' },
    sql: { expose: true },
    tls: { listenerSecret: 'listener-tls', sqlSecret: 'sql-tls', gatewaySecret: 'gateway-tls' },
    access: {
      trustedProxies: ['10.0.0.0/8', '2001:db8::/32'],
      listenNetworks: ['192.0.2.0/24'],
      gatewayNetworks: ['198.51.100.0/24'],
      addressRate: '100/s',
      tableRate: '5000/min',
    },
    listeners: 3,
    bodyBytesMax: 26_214_400,
    gateway: { enabled: true, tokenSecret: { name: 'tokens', key: 'gateway' } },
    ports: { webhook: 14560, sql: 14567, gateway: 18000, admin: 14561 },
    autoscaling: { minReplicas: 3, maxReplicas: 9, targetCPUUtilizationPercentage: 60 },
    service: {
      type: 'LoadBalancer',
      annotations: { 'example.com/internal': 'false' },
      externalTrafficPolicy: 'Local',
    },
    nodePorts: { webhook: 30_080, gateway: 30_081 },
    ingress: {
      className: 'nginx',
      annotations: { 'example.com/body-size': '25m' },
      hosts: ['hooks.example.com', 'hooks.example.org'],
      tls: [{ hosts: ['hooks.example.com'], secretName: 'hooks-tls' }],
    },
    httpRoute: {
      annotations: { 'example.com/route': 'outside' },
      parentRefs: [{ name: 'outside', namespace: 'gateways', sectionName: 'https' }, { name: 'inside' }],
      hostnames: ['hooks.example.com', '*.hooks.example.org'],
    },
    publicUrl: 'https://hooks.example.com',
    clusterDomain: 'corp.internal',
    logLevel: 'debug',
    networkPolicy: {
      webhookFrom: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }],
      sqlFrom: [{ podSelector: { matchLabels: { role: 'dba' } } }],
      gatewayFrom: [{ namespaceSelector: { matchLabels: { team: 'orders' } } }],
      metricsFrom: [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }],
    },
    serviceMonitor: { enabled: true, interval: '15s', labels: { release: 'prometheus' } },
    serviceAccount: { annotations: { 'example.com/role': 'reader' } },
    // Includes some that an object sets itself.
    commonLabels: { 'example.com/cost': '42', release: 'common', team: 'common' },
    commonAnnotations: { 'example.com/on': 'true', 'example.com/role': 'common', 'example.com/empty': '' },
    startupProbe: { initialDelaySeconds: 3, failureThreshold: 300 },
    livenessProbe: { timeoutSeconds: 9 },
    readinessProbe: { initialDelaySeconds: 1, periodSeconds: 5, timeoutSeconds: 4, failureThreshold: 3 },
    resources: { requests: { cpu: '1', memory: '1Gi' } },
    podSecurityContext: { runAsNonRoot: true, runAsUser: 1234 },
    podAnnotations: { 'example.com/a': 'b' },
    podLabels: { team: 'orders' },
    nodeSelector: { disk: 'fast' },
    tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: {
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { a: 'b' } } },
        ],
      },
    },
    topologySpreadConstraints: [
      {
        maxSkew: 2,
        topologyKey: 'topology.kubernetes.io/zone',
        whenUnsatisfiable: 'DoNotSchedule',
        labelSelector: { matchLabels: { a: 'b' } },
      },
    ],
    priorityClassName: 'important',
    preStopSeconds: 15,
    terminationGracePeriodSeconds: 90,
    extraEnv: [{ name: 'TZ', value: 'UTC' }],
    extraEnvFrom: [{ secretRef: { name: 'more' } }],
    extraContainers: [{ name: 'beside', image: 'images.example/beside:1' }],
    extraVolumes: [{ name: 'ca', configMap: { name: 'database-ca' } }],
    extraVolumeMounts: [{ name: 'ca', mountPath: '/etc/ca', readOnly: true }],
  };
  const matrix = new Map<string, HeadgateSpec>([
    ['nothing but the image', { image }],
    ['everything', everything],
    ['embedded with a volume of its owner', { image, storage: { existingClaim: 'mine' } }],
    [
      'embedded, deleted with its volume',
      {
        image,
        enableWebhookListener: true,
        storage: {
          size: '100Gi',
          storageClassName: 'fast',
          accessModes: ['ReadWriteOncePod'],
          deleteWithResource: true,
        },
        commonAnnotations: { 'example.com/on': 'true' },
      },
    ],
    [
      'texts that look like numbers, behind any Gateway',
      {
        image,
        enableWebhookListener: true,
        storage: { size: '42', storageClassName: '1' },
        priorityClassName: '7',
        serviceAccount: { name: '123' },
        masterKeySecret: { name: '1e3', key: '1.0' },
        ingress: { className: '5', hosts: ['1.2'] },
        httpRoute: { parentRefs: [{ name: '9' }] },
        service: { type: 'NodePort' },
        commonAnnotations: { 'example.com/number': '1' },
      },
    ],
    ['under an account of its owner', { image, serviceAccount: { name: 'mine' } }],
    ['stopped', { image, replicas: 0, enableWebhookListener: true }],
    ['scraped by whatever Prometheus there is', { image, serviceMonitor: { enabled: true } }],
    [
      'pods beside a database that keep webhooks',
      {
        image,
        databaseUrlSecret,
        replicas: 2,
        enableWebhookListener: true,
        spool: { size: '2Gi', storageClassName: 'fast' },
      },
    ],
    [
      'as many as are needed, each with a volume',
      {
        image,
        databaseUrlSecret,
        autoscaling: { minReplicas: 2, maxReplicas: 3, targetCPUUtilizationPercentage: 60 },
        spool: { size: '3Gi' },
      },
    ],
    ['one pod beside a database', { image, databaseUrlSecret, enableWebhookListener: true }],
  ]);
  for (const external of [false, true]) {
    for (const doors of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const spec: HeadgateSpec = {
        image,
        enableWebhookListener: (doors & 1) > 0,
        sql: {
          expose: (doors & 2) > 0,
          ...((doors & 2) > 0 && !external && { passwordSecret: { name: 'sql', key: 'root' } }),
        },
        gateway: { enabled: (doors & 4) > 0 },
        networkPolicy: { enabled: doors !== 3 },
        ...(external && { databaseUrlSecret, replicas: doors }),
      };
      matrix.set(`${external ? 'external' : 'embedded'}, doors ${doors.toString(2).padStart(3, '0')}`, spec);
    }
  }
  return matrix;
}

/** What the chart and the operator each add: names, labels, and the marks of the release. */
export function chartDeployment(release: string, spec: HeadgateSpec) {
  const complete: CompleteSpec = completeSpec(spec);
  return {
    name: release,
    namespace: 'hooks',
    image: complete.image,
    selector: { 'app.kubernetes.io/name': 'headgate', 'app.kubernetes.io/instance': release },
    labels: { 'app.kubernetes.io/managed-by': 'Helm', 'helm.sh/chart': 'headgate-0.1.0' },
    keep: { 'helm.sh/resource-policy': 'keep' },
    databaseUrlChecksum: null,
    spec: complete,
  };
}
