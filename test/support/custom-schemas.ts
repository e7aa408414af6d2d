/**
 * The kinds beyond Kubernetes' own that a Headgate can include: from their definitions (Gateway API v1, Prometheus
 * operator v1) the fields that are set here, with the rules for their values. A field that is not listed counts as
 * unknown: to set another one, look it up first.
 */
import { isDeepStrictEqual } from 'node:util';
import { conform } from './kube/structural-schema.ts';
import type { Schema } from './kube/structural-schema.ts';

const string = (rules: Schema = {}): Schema => ({ type: 'string', ...rules });
const list = (items: Schema, rules: Schema = {}): Schema => ({ type: 'array', items, ...rules });
const object = (properties: Record<string, Schema>, ...required: string[]): Schema => ({
  type: 'object',
  properties,
  required,
});
const texts: Schema = { type: 'object', additionalProperties: string() };
const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const domain = `${label}(\\.${label})*`;
const duration = string({ pattern: '^(0|(\\d+y)?(\\d+w)?(\\d+d)?(\\d+h)?(\\d+m)?(\\d+s)?(\\d+ms)?)$' });
const port: Schema = { type: 'integer', minimum: 1, maximum: 65_535 };

const reference = {
  group: string({ maxLength: 253, pattern: `^$|^${domain}$` }),
  kind: string({ minLength: 1, maxLength: 63, pattern: '^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$' }),
  namespace: string({ minLength: 1, maxLength: 63, pattern: `^${label}$` }),
  name: string({ minLength: 1, maxLength: 253 }),
  port,
};
const sectionName = string({ minLength: 1, maxLength: 253, pattern: `^${domain}$` });
const pathMatch = object({
  type: string({ enum: ['Exact', 'PathPrefix', 'RegularExpression'] }),
  value: string({ maxLength: 1024, pattern: '^/' }),
});
const hostname = string({ minLength: 1, maxLength: 253, pattern: `^(\\*\\.)?${domain}$` });
const routeRule = object({
  matches: list(object({ path: pathMatch }), { maxItems: 64 }),
  // For a Service the port is required.
  backendRefs: list(object(reference, 'name', 'port'), { maxItems: 16 }),
});
const alert = object(
  { alert: string(), expr: string(), for: duration, labels: texts, annotations: texts },
  'expr',
);

const specs: Readonly<Record<string, Schema>> = {
  'gateway.networking.k8s.io/v1 HTTPRoute': object({
    parentRefs: list(object({ ...reference, sectionName }, 'name'), { maxItems: 32 }),
    hostnames: list(hostname, { maxItems: 16 }),
    rules: list(routeRule, { minItems: 1, maxItems: 16 }),
  }),
  'monitoring.coreos.com/v1 PrometheusRule': object({
    groups: list(object({ name: string({ minLength: 1 }), rules: list(alert) }, 'name')),
  }),
  'monitoring.coreos.com/v1 ServiceMonitor': object(
    {
      jobLabel: string(),
      selector: object({ matchLabels: texts }),
      endpoints: list(object({ port: string(), path: string(), interval: duration })),
    },
    'endpoints',
    'selector',
  ),
};
const metadata = object(
  {
    name: string({ maxLength: 253, pattern: `^${domain}$` }),
    namespace: string({ maxLength: 63, pattern: `^${label}$` }),
    labels: texts,
    annotations: texts,
  },
  'name',
);

/** What is wrong with the object, one line each; null: an unknown kind. */
export function customSchemaProblems(value: { apiVersion: string; kind: string }): string[] | null {
  const spec = specs[`${value.apiVersion} ${value.kind}`];
  if (spec === undefined) return null;
  const whole = object({ apiVersion: string(), kind: string(), metadata, spec }, 'metadata', 'spec');
  const problems: string[] = [];
  const kept = conform(value, whole, value.kind, problems);
  if (!isDeepStrictEqual(kept, value)) problems.push(`${value.kind} has fields that are unknown`);
  return problems;
}
