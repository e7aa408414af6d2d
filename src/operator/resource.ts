/**
 * The `Headgate` resource: its fields and their defaults. The defaults are the chart's (values.yaml); a test compares
 * both. Takes a resource as the API server returns it, returns a complete spec, or one sentence for each thing that
 * cannot be built. Pure.
 */

export type ResourceJson = null | boolean | number | string | readonly ResourceJson[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: ResourceJson | undefined;
}

export const group = 'headgate.dev';
export const version = 'v1alpha1';
export const apiVersionOfHeadgate = `${group}/${version}`;
export const finalizer = 'headgate.dev/deletion';

type TextByName = Readonly<Record<string, string>>;

export interface SecretRef {
  readonly name: string;
  readonly key: string;
}

/** The timing of a probe; what it requests is fixed. */
export interface ProbeTimes {
  readonly initialDelaySeconds: number;
  readonly periodSeconds: number;
  readonly timeoutSeconds: number;
  readonly failureThreshold: number;
}

/** A spec without open fields; field by field the chart's values, under the names of the resource. */
export interface CompleteSpec {
  readonly enableWebhookListener: boolean;
  /** Empty: the operator's own image. */
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly imagePullSecrets: readonly ResourceJson[];
  readonly replicas: number;
  readonly autoscaling: {
    readonly minReplicas: number;
    readonly maxReplicas: number;
    readonly targetCPUUtilizationPercentage: number;
  } | null;
  /** null: the embedded engine. */
  readonly databaseUrlSecret: SecretRef | null;
  readonly storage: {
    readonly size: string;
    readonly storageClassName: string;
    readonly accessModes: readonly string[];
    readonly existingClaim: string;
    readonly deleteWithResource: boolean;
  };
  /** A volume for each pod with an external database; `size` empty: none. */
  readonly spool: { readonly size: string; readonly storageClassName: string };
  /** null: generated once, and kept. */
  readonly masterKeySecret: SecretRef | null;
  /** `passwordSecret`: for role root of the embedded engine; null: the SQL door asks for no password. */
  readonly sql: { readonly expose: boolean; readonly passwordSecret: SecretRef | null };
  readonly gateway: { readonly enabled: boolean; readonly tokenSecret: SecretRef | null };
  readonly ports: {
    readonly webhook: number;
    readonly sql: number;
    readonly gateway: number;
    readonly admin: number;
  };
  readonly service: {
    readonly type: string;
    readonly annotations: TextByName;
    readonly externalTrafficPolicy: string;
  };
  /** Ports on the nodes; 0: the cluster chooses. */
  readonly nodePorts: { readonly webhook: number; readonly sql: number; readonly gateway: number };
  readonly ingress: {
    readonly className: string;
    readonly annotations: TextByName;
    readonly hosts: readonly string[];
    readonly tls: readonly ResourceJson[];
  } | null;
  readonly httpRoute: {
    readonly annotations: TextByName;
    readonly parentRefs: readonly ResourceJson[];
    readonly hostnames: readonly string[];
  } | null;
  /** Names of Secrets of type kubernetes.io/tls; empty: no TLS at that door. */
  readonly tls: {
    readonly listenerSecret: string;
    readonly sqlSecret: string;
    readonly gatewaySecret: string;
  };
  readonly access: {
    readonly trustedProxies: readonly string[];
    readonly listenNetworks: readonly string[];
    readonly gatewayNetworks: readonly string[];
    readonly addressRate: string;
    readonly tableRate: string;
  };
  /** Listener processes; 0: by cores. */
  readonly listeners: number;
  /** 0: Headgate's own limit. */
  readonly bodyBytesMax: number;
  readonly publicUrl: string;
  readonly clusterDomain: string;
  readonly logLevel: string;
  readonly networkPolicy: {
    readonly enabled: boolean;
    readonly webhookFrom: readonly ResourceJson[];
    readonly sqlFrom: readonly ResourceJson[];
    readonly gatewayFrom: readonly ResourceJson[];
    readonly metricsFrom: readonly ResourceJson[];
  };
  readonly serviceMonitor: {
    readonly enabled: boolean;
    readonly interval: string;
    readonly labels: TextByName;
  };
  /** `name`: an existing one to use instead of creating one. */
  readonly serviceAccount: { readonly name: string; readonly annotations: TextByName };
  /** For every object; labels also for the pods. */
  readonly commonLabels: TextByName;
  readonly commonAnnotations: TextByName;
  readonly startupProbe: ProbeTimes;
  readonly livenessProbe: ProbeTimes;
  readonly readinessProbe: ProbeTimes;
  readonly resources: JsonObject;
  readonly podSecurityContext: JsonObject;
  readonly podAnnotations: TextByName;
  readonly podLabels: TextByName;
  readonly nodeSelector: TextByName;
  readonly tolerations: readonly ResourceJson[];
  readonly affinity: JsonObject;
  readonly topologySpreadConstraints: readonly ResourceJson[];
  readonly priorityClassName: string;
  readonly preStopSeconds: number;
  readonly terminationGracePeriodSeconds: number;
  readonly extraEnv: readonly ResourceJson[];
  readonly extraEnvFrom: readonly ResourceJson[];
  readonly extraContainers: readonly ResourceJson[];
  readonly extraVolumes: readonly ResourceJson[];
  readonly extraVolumeMounts: readonly ResourceJson[];
  /** While true, nothing in the cluster is changed; deletion is still carried out. */
  readonly paused: boolean;
}

/** The spec as written by a user: anything may be left out, at every level. */
export type HeadgateSpec = {
  readonly [K in keyof CompleteSpec]?: CompleteSpec[K] extends readonly ResourceJson[]
    ? CompleteSpec[K]
    : CompleteSpec[K] extends object | null
      ? Partial<NonNullable<CompleteSpec[K]>> | (null extends CompleteSpec[K] ? null : never)
      : CompleteSpec[K];
};

export interface Metadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
}

export interface ResourceCondition {
  readonly type: 'Ready' | 'Progressing' | 'Degraded';
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
  readonly lastTransitionTime: string;
}

export interface HeadgateStatus {
  readonly observedGeneration: number;
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly selector: string;
  /** URL of the webhook listener inside the cluster; empty without the listener. */
  readonly endpoint: string;
  /** The Secret with a generated master key, which is never generated again. */
  readonly generatedMasterKeySecret: string;
  readonly conditions: readonly ResourceCondition[];
}

export interface HeadgateResource {
  readonly metadata: Metadata;
  readonly spec?: HeadgateSpec;
  readonly status?: Partial<HeadgateStatus>;
}

const autoscaling = { minReplicas: 2, maxReplicas: 6, targetCPUUtilizationPercentage: 70 };
const ingress = { className: '', annotations: {}, hosts: [], tls: [] };
const httpRoute = { annotations: {}, parentRefs: [], hostnames: [] };

export const defaults: CompleteSpec = {
  enableWebhookListener: false,
  image: '',
  imagePullPolicy: 'IfNotPresent',
  imagePullSecrets: [],
  replicas: 1,
  autoscaling: null,
  databaseUrlSecret: null,
  storage: {
    size: '20Gi',
    storageClassName: '',
    accessModes: ['ReadWriteOnce'],
    existingClaim: '',
    deleteWithResource: false,
  },
  spool: { size: '', storageClassName: '' },
  masterKeySecret: null,
  sql: { expose: false, passwordSecret: null },
  gateway: { enabled: false, tokenSecret: null },
  ports: { webhook: 4560, sql: 4567, gateway: 8000, admin: 4561 },
  service: { type: 'ClusterIP', annotations: {}, externalTrafficPolicy: '' },
  nodePorts: { webhook: 0, sql: 0, gateway: 0 },
  ingress: null,
  httpRoute: null,
  tls: { listenerSecret: '', sqlSecret: '', gatewaySecret: '' },
  access: { trustedProxies: [], listenNetworks: [], gatewayNetworks: [], addressRate: '', tableRate: '' },
  listeners: 0,
  bodyBytesMax: 0,
  publicUrl: '',
  clusterDomain: 'cluster.local',
  logLevel: 'info',
  networkPolicy: { enabled: true, webhookFrom: [], sqlFrom: [], gatewayFrom: [], metricsFrom: [] },
  serviceMonitor: { enabled: false, interval: '30s', labels: {} },
  serviceAccount: { name: '', annotations: {} },
  commonLabels: {},
  commonAnnotations: {},
  startupProbe: { initialDelaySeconds: 0, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 150 },
  livenessProbe: { initialDelaySeconds: 0, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
  readinessProbe: { initialDelaySeconds: 0, periodSeconds: 3, timeoutSeconds: 2, failureThreshold: 2 },
  resources: { requests: { cpu: '250m', memory: '512Mi' }, limits: { memory: '2Gi' } },
  podSecurityContext: {
    runAsNonRoot: true,
    fsGroup: 10001,
    fsGroupChangePolicy: 'OnRootMismatch',
    seccompProfile: { type: 'RuntimeDefault' },
  },
  podAnnotations: {},
  podLabels: {},
  nodeSelector: {},
  tolerations: [],
  affinity: {},
  topologySpreadConstraints: [],
  priorityClassName: '',
  preStopSeconds: 5,
  terminationGracePeriodSeconds: 45,
  extraEnv: [],
  extraEnvFrom: [],
  extraContainers: [],
  extraVolumes: [],
  extraVolumeMounts: [],
  paused: false,
};

/**
 * Environment variables set by fields of the spec, under all their names; `extraEnv` is for the others. The chart and
 * the CRD contain the same list.
 */
export const managedEnvironment: readonly string[] = [
  'HEADGATE_DATA_DIR',
  'HEADGATE_LISTEN_ENABLED',
  'HEADGATE_LISTEN_PORT',
  'HEADGATE_SQL_HOST',
  'HEADGATE_SQL_PORT',
  'HEADGATE_ADMIN_HOST',
  'HEADGATE_ADMIN_PORT',
  'HEADGATE_INSECURE',
  'HEADGATE_LOG_FORMAT',
  'HEADGATE_LOG_LEVEL',
  'HEADGATE_MASTER_KEY',
  'HEADGATE_MASTER_KEY_FILE',
  'HEADGATE_DATABASE_URL',
  'HEADGATE_PUBLIC_URL',
  'HEADGATE_SQL_PASSWORD',
  'HEADGATE_SQL_PASSWORD_FILE',
  'HEADGATE_LISTEN_TLS_CERT',
  'HEADGATE_LISTEN_TLS_KEY',
  'HEADGATE_SQL_TLS_CERT',
  'HEADGATE_SQL_TLS_KEY',
  'HEADGATE_GATEWAY_TLS_CERT',
  'HEADGATE_GATEWAY_TLS_KEY',
  'HEADGATE_TRUSTED_PROXIES',
  'HEADGATE_LISTEN_NETWORKS',
  'HEADGATE_GATEWAY_NETWORKS',
  'HEADGATE_ADDRESS_RATE',
  'HEADGATE_TABLE_RATE',
  'HEADGATE_LISTENERS',
  'HEADGATE_BODY_BYTES_MAX',
  'EVENTS_API_HOST',
  'EVENTS_API_PORT',
  'EVENTS_API_TOKEN',
  'HEADGATE_GATEWAY_HOST',
  'HEADGATE_GATEWAY_PORT',
  'HEADGATE_GATEWAY_TOKEN',
];

/** Labels that identify the objects of a Headgate; nobody else may set them. */
export const reservedLabels: readonly string[] = [
  'app.kubernetes.io/name',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/managed-by',
  'app.kubernetes.io/component',
  'helm.sh/chart',
];

/** Groups of fields that may be given in part; every other field is replaced as a whole. */
const partial: ReadonlySet<keyof CompleteSpec> = new Set([
  'storage',
  'spool',
  'sql',
  'gateway',
  'ports',
  'tls',
  'access',
  'service',
  'nodePorts',
  'startupProbe',
  'livenessProbe',
  'readinessProbe',
  'networkPolicy',
  'serviceMonitor',
  'serviceAccount',
]);

export function completeSpec(spec: HeadgateSpec): CompleteSpec {
  const complete: Record<string, unknown> = { ...defaults };
  for (const [name, given] of Object.entries(spec) as [keyof CompleteSpec, unknown][]) {
    if (given === null || given === undefined) continue;
    complete[name] = partial.has(name) ? { ...(defaults[name] as object), ...(given as object) } : given;
  }
  if (spec.autoscaling) complete['autoscaling'] = { ...autoscaling, ...spec.autoscaling };
  if (spec.ingress) complete['ingress'] = { ...ingress, ...spec.ingress };
  if (spec.httpRoute) complete['httpRoute'] = { ...httpRoute, ...spec.httpRoute };
  return complete as unknown as CompleteSpec;
}

/**
 * What cannot be built, in the terms of the resource. The CRD refuses the same at `kubectl apply`; this is for
 * resources stored before the CRD had these rules.
 */
export function problemsOf(name: string, spec: CompleteSpec): readonly string[] {
  const problems: string[] = [];
  const say = (isWrong: boolean, problem: string) => {
    if (isWrong) problems.push(problem);
  };
  const isEmbedded = spec.databaseUrlSecret === null;
  // Leaves room for the suffixes of object names.
  say(name.length > 50, 'metadata.name has more than 50 characters');
  say(isEmbedded && spec.replicas > 1, 'spec.replicas above 1 needs spec.databaseUrlSecret');
  say(isEmbedded && spec.autoscaling !== null, 'spec.autoscaling needs spec.databaseUrlSecret');
  say(
    isEmbedded && spec.spool.size !== '',
    'spec.spool needs spec.databaseUrlSecret: the volume of the embedded engine holds what is spooled as well',
  );
  const { autoscaling, ingress, httpRoute, ports } = spec;
  say(
    autoscaling !== null && autoscaling.minReplicas > autoscaling.maxReplicas,
    'spec.autoscaling.minReplicas is above maxReplicas',
  );
  say(ingress !== null && !spec.enableWebhookListener, 'spec.ingress needs spec.enableWebhookListener: true');
  say(ingress !== null && ingress.hosts.length === 0, 'spec.ingress.hosts needs at least one name');
  say(
    httpRoute !== null && !spec.enableWebhookListener,
    'spec.httpRoute needs spec.enableWebhookListener: true',
  );
  say(httpRoute?.parentRefs.length === 0, 'spec.httpRoute.parentRefs needs at least one Gateway');
  say(
    spec.terminationGracePeriodSeconds < spec.preStopSeconds + 20,
    'spec.terminationGracePeriodSeconds must be at least spec.preStopSeconds + 20',
  );
  say(
    isEmbedded && spec.sql.expose && spec.sql.passwordSecret === null,
    'spec.sql.expose needs spec.sql.passwordSecret: the embedded engine trusts whoever reaches the SQL door',
  );
  say(
    !isEmbedded && spec.sql.passwordSecret !== null,
    'spec.sql.passwordSecret is for the embedded engine: the server of spec.databaseUrlSecret asks for passwords itself',
  );
  const names = spec.extraEnv.map((it) => (it as { readonly name?: string } | null)?.name ?? '');
  const twice = names.find((it, index) => names.indexOf(it) < index);
  say(twice !== undefined, `spec.extraEnv has ${twice} twice`);
  const doubled = managedEnvironment.filter((it) => names.includes(it));
  say(doubled.length > 0, `spec.extraEnv must not set ${doubled.join(', ')}: another field of spec does`);
  say(new Set(Object.values(ports)).size < 4, 'spec.ports must differ from each other');
  const nodePorts = Object.values(spec.nodePorts).filter((port) => port > 0);
  say(
    nodePorts.length > 0 && spec.service.type === 'ClusterIP',
    'spec.nodePorts need another spec.service.type',
  );
  say(new Set(nodePorts).size < nodePorts.length, 'spec.nodePorts must differ from each other');
  const labels = { ...spec.commonLabels, ...spec.podLabels, ...spec.serviceMonitor.labels };
  const reserved = reservedLabels.filter((it) => it in labels);
  say(
    reserved.length > 0,
    `labels must not set ${reserved.join(', ')}: they find what belongs to a Headgate`,
  );
  return problems;
}
