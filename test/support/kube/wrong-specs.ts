/** Specs that the schema of the CRD alone refuses, and the stand-in's messages; a real API server refuses them too. */
export const wrongSpecs: readonly (readonly [spec: object, says: RegExp])[] = [
  [{ enableWebhookListener: 'true' }, /enableWebhookListener: must be of type boolean/],
  [{ ports: { webhook: 80 } }, /ports.webhook: must be at least 1024/],
  [{ storage: { size: 'much' } }, /storage.size: must match/],
  [{ databaseUrlSecret: { name: 'a' } }, /databaseUrlSecret.key: is required/],
  [{ ingress: { hosts: [] } }, /hosts: must have at least 1/],
  [{ replicas: -1 }, /replicas: must be at least 0/],
  [{ httpRoute: { hostnames: ['a.example'] } }, /httpRoute.parentRefs: is required/],
  [{ httpRoute: { parentRefs: [{ name: 'a' }], hostnames: ['a:1'] } }, /hostnames\[0\]: must match/],
  [{ commonLabels: { team: 'a b' } }, /commonLabels.team: must match/],
  [{ nodePorts: { webhook: 70_000 } }, /nodePorts.webhook: must be at most 65535/],
  [{ livenessProbe: { periodSeconds: 0 } }, /periodSeconds: must be at least 1/],
  [{ logLevel: 'loud' }, /logLevel: must be one of/],
  [{ networkPolicy: { webhookFrom: [{}] } }, /webhookFrom\[0\]: is empty/],
];
