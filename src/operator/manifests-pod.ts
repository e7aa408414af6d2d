/**
 * The pod that runs Headgate, the same in a StatefulSet and a Deployment. Takes a deployment's values, returns the pod
 * template; refuses nothing, touches nothing.
 */
import { filled } from './manifest.ts';
import type { Deployment } from './manifest.ts';
import type { ResourceJson, JsonObject, ProbeTimes } from './resource.ts';

const dataDir = '/data';

export function podTemplate(deployment: Deployment): JsonObject {
  const { spec, selector, name, databaseUrlChecksum } = deployment;
  const annotations = {
    // A new connection string replaces the pods.
    ...(databaseUrlChecksum !== null && { 'checksum/database-url': databaseUrlChecksum }),
    ...spec.podAnnotations,
  };
  return {
    metadata: {
      labels: { ...selector, ...spec.commonLabels, ...spec.podLabels },
      annotations: filled(annotations),
    },
    spec: {
      serviceAccountName: filled(spec.serviceAccount.name) ?? name,
      // Headgate makes no requests to the cluster.
      automountServiceAccountToken: false,
      // Otherwise the kubelet adds HEADGATE_PORT=tcp://… and the like to the environment, and Headgate refuses unknown
      // settings.
      enableServiceLinks: false,
      imagePullSecrets: filled(spec.imagePullSecrets),
      priorityClassName: filled(spec.priorityClassName),
      securityContext: spec.podSecurityContext,
      terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds,
      containers: [container(deployment), ...spec.extraContainers],
      volumes: volumes(deployment),
      nodeSelector: filled(spec.nodeSelector),
      tolerations: filled(spec.tolerations),
      affinity: filled(spec.affinity),
      topologySpreadConstraints: filled(spread(deployment)),
    },
  };
}

function container(deployment: Deployment): JsonObject {
  const { spec, image } = deployment;
  const port = (name: string, containerPort: number) => ({ name, containerPort, protocol: 'TCP' });
  return {
    name: 'headgate',
    image,
    imagePullPolicy: spec.imagePullPolicy,
    args: ['start'],
    env: environment(deployment),
    envFrom: filled(spec.extraEnvFrom),
    ports: [
      ...(spec.enableWebhookListener ? [port('webhook', spec.ports.webhook)] : []),
      ...(spec.sql.expose ? [port('sql', spec.ports.sql)] : []),
      ...(spec.gateway.enabled ? [port('gateway', spec.ports.gateway)] : []),
      port('admin', spec.ports.admin),
    ],
    // The admin port opens once the engine has started; after a crash that includes replaying its log.
    startupProbe: probe('/healthz', spec.startupProbe),
    livenessProbe: probe('/healthz', spec.livenessProbe),
    readinessProbe: probe('/readyz', spec.readinessProbe),
    // Endpoints and proxies remove the pod while it still answers; only then follow SIGTERM and the drain.
    lifecycle: { preStop: { exec: { command: ['sleep', String(spec.preStopSeconds)] } } },
    resources: filled(spec.resources),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'data', mountPath: dataDir },
      ...(spec.spool.size === '' ? [] : [{ name: 'spool', mountPath: `${dataDir}/spool` }]),
      { name: 'tmp', mountPath: '/tmp' },
      ...(spec.databaseUrlSecret === null ? [{ name: 'shm', mountPath: '/dev/shm' }] : []),
      ...certificates(spec).map(({ door }) => ({
        name: `tls-${door}`,
        mountPath: `/tls/${door}`,
        readOnly: true,
      })),
      ...spec.extraVolumeMounts,
    ],
  };
}

function probe(path: string, { initialDelaySeconds, ...times }: ProbeTimes): JsonObject {
  const delay = initialDelaySeconds === 0 ? {} : { initialDelaySeconds };
  return { httpGet: { path, port: 'admin' }, ...delay, ...times };
}

function environment({ spec, name }: Deployment): ResourceJson[] {
  const set = (variable: string, value: string | number | boolean) => ({
    name: variable,
    value: String(value),
  });
  const secret = (variable: string, from: { name: string; key: string }) => ({
    name: variable,
    valueFrom: { secretKeyRef: { name: from.name, key: from.key } },
  });
  const listener = spec.enableWebhookListener;
  return [
    set('HEADGATE_DATA_DIR', dataDir),
    // Without the listener nothing listens on its port, whatever a Service says.
    set('HEADGATE_LISTEN_ENABLED', listener),
    ...(listener ? [set('HEADGATE_LISTEN_PORT', spec.ports.webhook)] : []),
    set('HEADGATE_SQL_HOST', spec.sql.expose ? '0.0.0.0' : '127.0.0.1'),
    set('HEADGATE_SQL_PORT', spec.ports.sql),
    // The kubelet probes the admin port from outside the pod's network namespace, so it cannot stay on loopback;
    // HEADGATE_INSECURE states that something else protects it: the NetworkPolicy.
    set('HEADGATE_ADMIN_HOST', '0.0.0.0'),
    set('HEADGATE_ADMIN_PORT', spec.ports.admin),
    set('HEADGATE_INSECURE', true),
    set('HEADGATE_LOG_FORMAT', 'json'),
    set('HEADGATE_LOG_LEVEL', spec.logLevel),
    // From the environment, not from a mounted file: with an fsGroup the kubelet makes mounted Secrets readable by the
    // group, and Headgate refuses a key file that others can read.
    secret('HEADGATE_MASTER_KEY', spec.masterKeySecret ?? { name: `${name}-master-key`, key: 'master-key' }),
    ...(spec.databaseUrlSecret === null ? [] : [secret('HEADGATE_DATABASE_URL', spec.databaseUrlSecret)]),
    ...(spec.publicUrl === '' ? [] : [set('HEADGATE_PUBLIC_URL', spec.publicUrl)]),
    ...(spec.gateway.enabled
      ? [
          set('EVENTS_API_HOST', '0.0.0.0'),
          set('EVENTS_API_PORT', spec.ports.gateway),
          secret('EVENTS_API_TOKEN', spec.gateway.tokenSecret ?? { name: `${name}-gateway`, key: 'token' }),
        ]
      : []),
    ...(spec.sql.passwordSecret === null ? [] : [secret('HEADGATE_SQL_PASSWORD', spec.sql.passwordSecret)]),
    ...certificates(spec).flatMap(({ door, variable }) => [
      set(`HEADGATE_${variable}_TLS_CERT`, `/tls/${door}/tls.crt`),
      set(`HEADGATE_${variable}_TLS_KEY`, `/tls/${door}/tls.key`),
    ]),
    ...accessEnvironment(spec).map(([variable, value]) => set(variable, value)),
    ...spec.extraEnv,
  ];
}

/** The doors that have a certificate of their own. */
function certificates({ tls }: Deployment['spec']) {
  return [
    { door: 'listener', variable: 'LISTEN', secretName: tls.listenerSecret },
    { door: 'sql', variable: 'SQL', secretName: tls.sqlSecret },
    { door: 'gateway', variable: 'GATEWAY', secretName: tls.gatewaySecret },
  ].filter(({ secretName }) => secretName !== '');
}

/** Only what was specified: Headgate has its own defaults. */
function accessEnvironment({ access, listeners, bodyBytesMax }: Deployment['spec']): [string, string][] {
  const all: [string, string][] = [
    ['HEADGATE_TRUSTED_PROXIES', access.trustedProxies.join(',')],
    ['HEADGATE_LISTEN_NETWORKS', access.listenNetworks.join(',')],
    ['HEADGATE_GATEWAY_NETWORKS', access.gatewayNetworks.join(',')],
    ['HEADGATE_ADDRESS_RATE', access.addressRate],
    ['HEADGATE_TABLE_RATE', access.tableRate],
    ['HEADGATE_LISTENERS', listeners === 0 ? '' : String(listeners)],
    ['HEADGATE_BODY_BYTES_MAX', bodyBytesMax === 0 ? '' : String(bodyBytesMax)],
  ];
  return all.filter(([, value]) => value !== '');
}

function volumes({ spec, name }: Deployment): ResourceJson[] {
  const temporary = { name: 'tmp', emptyDir: { sizeLimit: '256Mi' } };
  const tls = certificates(spec).map(({ door, secretName }) => ({
    name: `tls-${door}`,
    secret: { secretName },
  }));
  if (spec.databaseUrlSecret !== null) {
    return [{ name: 'data', emptyDir: { sizeLimit: '64Mi' } }, temporary, ...tls, ...spec.extraVolumes];
  }
  const claimName = filled(spec.storage.existingClaim) ?? `${name}-data`;
  return [
    { name: 'data', persistentVolumeClaim: { claimName } },
    temporary,
    // PostgreSQL's parallel queries share memory here; a container's default of 64Mi fills up quickly.
    { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '256Mi' } },
    ...tls,
    ...spec.extraVolumes,
  ];
}

function spread({ spec, selector }: Deployment): readonly ResourceJson[] {
  if (spec.topologySpreadConstraints.length > 0 || spec.databaseUrlSecret === null) {
    return spec.topologySpreadConstraints;
  }
  return [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: selector },
    },
  ];
}
