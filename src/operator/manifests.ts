/**
 * The Kubernetes objects of a Headgate: a complete spec → the objects, as the operator applies them. The Helm chart
 * renders the same objects; test/deploy compares both over a matrix, so a change to only one of them fails. Takes only
 * values, refuses nothing, touches nothing.
 */
import { isStateful, object, filled } from './manifest.ts';
import type { Deployment, Manifest } from './manifest.ts';
import type { CompleteSpec, ResourceJson, JsonObject, ProbeTimes } from './resource.ts';

export function manifestsOf(deployment: Deployment): readonly Manifest[] {
  const { spec } = deployment;
  const made = [
    ...(spec.serviceAccount.name === ''
      ? [
          object(deployment, 'v1', 'ServiceAccount', '', {
            annotations: spec.serviceAccount.annotations,
            automountServiceAccountToken: false,
          }),
        ]
      : []),
    ...networkManifests(deployment),
    ...(spec.databaseUrlSecret === null ? embedded(deployment) : external(deployment)),
  ];
  // Drops undefined fields, as JSON does.
  return JSON.parse(JSON.stringify(made)) as Manifest[];
}

/** One process on one volume. A StatefulSet, because it never runs a new pod alongside the old one. */
function embedded(deployment: Deployment): Manifest[] {
  const { spec, name, selector, keep } = deployment;
  const set = object(deployment, 'apps/v1', 'StatefulSet', '', {
    spec: {
      replicas: spec.replicas,
      serviceName: `${name}-admin`,
      updateStrategy: { type: 'RollingUpdate' },
      selector: { matchLabels: selector },
      template: podTemplate(deployment),
    },
  });
  if (spec.storage.existingClaim !== '') return [set];
  const { accessModes, storageClassName, size, deleteWithResource } = spec.storage;
  // A separate object, not a template in the StatefulSet, so that its size can be raised.
  const claim = object(deployment, 'v1', 'PersistentVolumeClaim', '-data', {
    annotations: deleteWithResource ? {} : keep,
    spec: {
      accessModes,
      storageClassName: storageClassName === '' ? undefined : storageClassName,
      resources: { requests: { storage: size } },
    },
  });
  return [claim, set];
}

/** Any number of pods with an external database. */
function external(deployment: Deployment): Manifest[] {
  const { spec, name, selector } = deployment;
  const { autoscaling } = spec;
  // With an autoscaler, the autoscaler sets the number.
  const replicas = autoscaling === null ? spec.replicas : undefined;
  const made = [
    isStateful(spec)
      ? spooling(deployment, replicas)
      : object(deployment, 'apps/v1', 'Deployment', '', {
          spec: {
            replicas,
            // A rolling update never has fewer ready pods than at its start.
            strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
            selector: { matchLabels: selector },
            template: podTemplate(deployment),
          },
        }),
  ];
  if (autoscaling !== null) made.push(autoscaler(deployment, autoscaling));
  // With one pod, a budget would only prevent nodes from being drained.
  if ((autoscaling?.minReplicas ?? spec.replicas) > 1) {
    made.push(
      object(deployment, 'policy/v1', 'PodDisruptionBudget', '', {
        spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
      }),
    );
  }
  return made;

  function autoscaler(of: Deployment, bounds: NonNullable<CompleteSpec['autoscaling']>): Manifest {
    const cpu: ResourceJson = {
      name: 'cpu',
      target: { type: 'Utilization', averageUtilization: bounds.targetCPUUtilizationPercentage },
    };
    return object(of, 'autoscaling/v2', 'HorizontalPodAutoscaler', '', {
      spec: {
        scaleTargetRef: {
          apiVersion: 'apps/v1',
          kind: isStateful(spec) ? 'StatefulSet' : 'Deployment',
          name,
        },
        minReplicas: bounds.minReplicas,
        maxReplicas: bounds.maxReplicas,
        metrics: [{ type: 'Resource', resource: cpu }],
      },
    });
  }
}

/** Each pod finds what it has spooled on its previous volume; no pod waits for another. */
function spooling(deployment: Deployment, replicas: number | undefined): Manifest {
  const { spec, name, selector } = deployment;
  const { size, storageClassName } = spec.spool;
  return object(deployment, 'apps/v1', 'StatefulSet', '', {
    spec: {
      replicas,
      serviceName: `${name}-admin`,
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate' },
      selector: { matchLabels: selector },
      template: podTemplate(deployment),
      volumeClaimTemplates: [
        {
          metadata: { name: 'spool' },
          spec: {
            accessModes: ['ReadWriteOnce'],
            storageClassName: storageClassName === '' ? undefined : storageClassName,
            resources: { requests: { storage: size } },
          },
        },
      ],
    },
  });
}

/** How to reach a Headgate: services, ingress, route, network policy, scraping. A door that is off appears in none of them. */
function networkManifests(deployment: Deployment): Manifest[] {
  const { spec, selector } = deployment;
  const made = [
    // Health and metrics of each pod: what Prometheus scrapes, and the StatefulSet's governing service.
    object(deployment, 'v1', 'Service', '-admin', {
      labels: { 'app.kubernetes.io/component': 'admin' },
      spec: {
        clusterIP: 'None',
        publishNotReadyAddresses: true,
        selector,
        ports: [servicePort('admin', spec.ports.admin)],
      },
    }),
  ];
  const ports = doors(deployment);
  if (ports.length > 0) {
    const { type, annotations, externalTrafficPolicy } = spec.service;
    made.push(
      object(deployment, 'v1', 'Service', '', {
        annotations,
        spec: { type, externalTrafficPolicy: filled(externalTrafficPolicy), selector, ports },
      }),
    );
  }
  if (spec.ingress !== null && spec.enableWebhookListener) made.push(ingress(deployment, spec.ingress));
  if (spec.httpRoute !== null && spec.enableWebhookListener) made.push(httpRoute(deployment, spec.httpRoute));
  if (spec.networkPolicy.enabled) made.push(networkPolicy(deployment));
  if (spec.serviceMonitor.enabled) made.push(serviceMonitor(deployment));
  return made;
}

const servicePort = (name: string, port: number, nodePort = 0) => ({
  name,
  port,
  targetPort: name,
  protocol: 'TCP',
  ...(nodePort > 0 && { nodePort }),
});

function doors({ spec: { ports, nodePorts, ...spec } }: Deployment) {
  return [
    ...(spec.enableWebhookListener ? [servicePort('webhook', ports.webhook, nodePorts.webhook)] : []),
    ...(spec.sql.expose ? [servicePort('sql', ports.sql, nodePorts.sql)] : []),
    ...(spec.gateway.enabled ? [servicePort('gateway', ports.gateway, nodePorts.gateway)] : []),
  ];
}

const listenerPaths = ['/webhook', '/ingest'];

/** Leads only to the listener, never to the other doors. */
function ingress(deployment: Deployment, wanted: NonNullable<Deployment['spec']['ingress']>): Manifest {
  const { className, annotations, hosts, tls } = wanted;
  const backend = { service: { name: deployment.name, port: { name: 'webhook' } } };
  const paths = listenerPaths.map((path) => ({ path, pathType: 'Prefix', backend }));
  return object(deployment, 'networking.k8s.io/v1', 'Ingress', '', {
    annotations,
    spec: {
      ingressClassName: filled(className),
      tls: filled(tls),
      rules: hosts.map((host) => ({ host, http: { paths } })),
    },
  });
}

/** The same for a Gateway. */
function httpRoute(deployment: Deployment, wanted: NonNullable<Deployment['spec']['httpRoute']>): Manifest {
  const { annotations, parentRefs, hostnames } = wanted;
  const matches = listenerPaths.map((value) => ({ path: { type: 'PathPrefix', value } }));
  const backendRefs = [{ name: deployment.name, port: deployment.spec.ports.webhook }];
  return object(deployment, 'gateway.networking.k8s.io/v1', 'HTTPRoute', '', {
    annotations,
    spec: { parentRefs, hostnames: filled(hostnames), rules: [{ matches, backendRefs }] },
  });
}

/** Who may reach which port. The kubelet's probes need no rule: traffic from the pod's own node always passes. */
function networkPolicy(deployment: Deployment): Manifest {
  const { spec, selector } = deployment;
  const { webhookFrom, sqlFrom, gatewayFrom, metricsFrom } = spec.networkPolicy;
  const ownNamespace: readonly ResourceJson[] = [{ podSelector: {} }];
  const prometheus: readonly ResourceJson[] = [
    { namespaceSelector: {}, podSelector: { matchLabels: { 'app.kubernetes.io/name': 'prometheus' } } },
  ];
  const rule = (port: number, from: readonly ResourceJson[] | undefined) => ({
    from,
    ports: [{ port, protocol: 'TCP' }],
  });
  const rules = [
    ...(spec.enableWebhookListener ? [rule(spec.ports.webhook, filled(webhookFrom))] : []),
    ...(spec.sql.expose ? [rule(spec.ports.sql, filled(sqlFrom) ?? ownNamespace)] : []),
    ...(spec.gateway.enabled ? [rule(spec.ports.gateway, filled(gatewayFrom) ?? ownNamespace)] : []),
    ...(metricsFrom.length > 0 || spec.serviceMonitor.enabled
      ? [rule(spec.ports.admin, filled(metricsFrom) ?? prometheus)]
      : []),
  ];
  return object(deployment, 'networking.k8s.io/v1', 'NetworkPolicy', '', {
    // The server drops an empty list, so that each apply of one would count as a change.
    spec: { podSelector: { matchLabels: selector }, policyTypes: ['Ingress'], ingress: filled(rules) },
  });
}

function serviceMonitor(deployment: Deployment): Manifest {
  const { spec, selector } = deployment;
  return object(deployment, 'monitoring.coreos.com/v1', 'ServiceMonitor', '', {
    labels: spec.serviceMonitor.labels,
    spec: {
      // The job is named after the program, as the alert rules expect.
      jobLabel: 'app.kubernetes.io/name',
      selector: { matchLabels: { ...selector, 'app.kubernetes.io/component': 'admin' } },
      endpoints: [{ port: 'admin', path: '/metrics', interval: spec.serviceMonitor.interval }],
    },
  });
}

const dataDir = '/data';

/** The pod that runs Headgate, the same in a StatefulSet and a Deployment. */
function podTemplate(deployment: Deployment): JsonObject {
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
