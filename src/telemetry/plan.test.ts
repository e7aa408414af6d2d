/** The variables of OpenTelemetry: what they turn on, and what is refused. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { resolveSettings } from '../config/resolve-settings.ts';
import { telemetryPlan } from './plan.ts';

const planned = (env: Record<string, string>) => telemetryPlan(resolveSettings({ env, flags: {} }).settings);
const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };

suite('the settings of OpenTelemetry are read', () => {
  test('telemetry is off without a receiver, whatever other OTEL variables are set', () => {
    for (const env of [
      {},
      { OTEL_TRACES_SAMPLER: 'jaeger_remote', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
      { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' },
      { ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
    ])
      assert.deepEqual(planned(env), { plan: null, problems: [] });
  });

  test("the OTLP base endpoint gets paths appended, a signal's own endpoint does not, and values are percent-decoded", () => {
    const { plan } = planned({
      ...endpoint,
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'https://metrics.example.com/otlp?tenant=1',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20dTpw, x-tenant = a%2Cb',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod,service.name=other',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    });
    assert.equal(plan?.traces?.href, 'http://collector:4318/v1/traces');
    assert.equal(plan.metrics?.href, 'https://metrics.example.com/otlp?tenant=1');
    assert.deepEqual(plan.headers, { authorization: 'Basic dTpw', 'x-tenant': 'a,b' });
    assert.deepEqual(plan.resource, { 'deployment.environment.name': 'prod', 'service.name': 'other' });
    assert.deepEqual(plan.sampler, { isParentBased: false, ratio: 0.25 });
    const usual = planned(endpoint).plan;
    assert.deepEqual(
      [usual?.sampler, usual?.metrics, usual?.resource],
      [{ isParentBased: true, ratio: 0.01 }, null, { 'service.name': 'headgate' }],
    );
  });

  test('unusable OTEL settings are refused in a sentence without their value', () => {
    for (const [env, said] of [
      [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /4318/],
      [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, /ENDPOINT must be an http/],
      [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://user:pass-word@collector' }, /without a user/],
      [{ OTEL_TRACES_SAMPLER: 'toString' }, /OTEL_TRACES_SAMPLER must/],
      [{ OTEL_TRACES_SAMPLER_ARG: '2' }, /from 0 to 1/],
      [{ OTEL_METRICS_EXPORTER: 'prometheus' }, /must be otlp or none/],
      [{ OTEL_EXPORTER_OTLP_HEADERS: 'pass-word' }, /must be name=value/],
      [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=pass-word%0d%0ab: c' }, /printable ASCII/],
      [{ OTEL_EXPORTER_OTLP_HEADERS: 'host=x' }, /"host"/],
      [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=%E0%A4%A' }, /percent-encoded/],
    ] as const) {
      const { plan, problems } = planned({ ...endpoint, ...env });
      assert.equal(plan, null);
      assert.match(problems.join('\n'), said);
      assert.doesNotMatch(problems.join('\n'), /pass-word/);
    }
  });
});
