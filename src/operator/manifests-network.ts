/**
 * How to reach a Headgate: services, ingress, route, network policy, scraping. Takes a deployment's values, returns objects;
 * refuses nothing, touches nothing. A door that is off appears in none of them.
 */
import { filled, object } from './manifest.ts';
import type { Deployment, Manifest } from './manifest.ts';
import type { ResourceJson } from './resource.ts';

export function networkManifests(deployment: Deployment): Manifest[] {
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
