/**
 * Opens what is sent by OpenTelemetry, if the settings name a receiver: traces of this process, and metrics of all of them. Part of the
 * composition root.
 */
import { hostname } from 'node:os';
import type { Metrics } from '../admin/metrics.ts';
import { createTelemetryPost } from '../access/outgoing.ts';
import type { Closer } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import { MetricSender } from '../telemetry/metric-sender.ts';
import { telemetryPlan } from '../telemetry/plan.ts';
import type { TelemetryPlan } from '../telemetry/plan.ts';
import { OtlpReceiver } from '../telemetry/otlp.ts';
import { SpanQueue } from '../telemetry/span-queue.ts';
import { attributesText } from '../telemetry/span-text.ts';
import { Tracer } from '../telemetry/tracer.ts';
import type { WebhookDoor } from './webhook-doors.ts';

interface MetricParts {
  readonly settings: Settings;
  readonly version: string;
  readonly observe: Observe;
  readonly listener: Pick<WebhookDoor, 'listeners'>;
  readonly metrics: Metrics;
}

/** Of requests that this process receives; null: nothing is traced. Closed by `closer`. */
export function openTracer(
  settings: Settings,
  version: string,
  observe: Observe,
  closer: Closer,
): Tracer | null {
  const { plan } = telemetryPlan(settings);
  if (plan === null || plan.traces === null) return null;
  const [clock, random] = [monotonicMs, Math.random];
  const queue = new SpanQueue({
    receiver: receiverOf('traces', plan, plan.traces, version, observe),
    scheduleMs: settings.otelScheduleMs,
    observe,
    clock,
    random,
  });
  closer.add('traces', () => queue.close());
  const { sampler, trusted } = plan;
  return new Tracer({ sampler, trusted, ended: queue.push, clock, now: Date.now, random });
}

/** Of all processes of this Headgate; does nothing if they are not wanted. Closed by `closer`. */
export function openMetricSender(
  { settings, version, observe, listener: { listeners }, metrics }: MetricParts,
  closer: Closer,
): void {
  const { plan } = telemetryPlan(settings);
  if (plan === null || plan.metrics === null) return;
  const receiver = receiverOf('metrics', plan, plan.metrics, version, observe);
  const families = () => listeners?.metricFamilies(metrics) ?? metrics.families();
  const sender = new MetricSender(receiver, families, settings.otelMetricMs);
  closer.add('metrics for the receiver', () => sender.close());
}

function receiverOf(
  what: 'traces' | 'metrics',
  plan: TelemetryPlan,
  url: URL,
  version: string,
  observe: Observe,
): OtlpReceiver {
  const { telemetryPostMs: outgoingMs, telemetryAnswerBytesMax: outgoingBytesMax } = limits;
  const post = createTelemetryPost({ outgoingMs, outgoingBytesMax });
  const [resource, scope] = [resourceText(plan, version), JSON.stringify({ name: 'headgate', version })];
  const { headers } = plan;
  return new OtlpReceiver({ what, url, headers, resource, scope, post, observe, now: Date.now });
}

/** What a receiver is told of this process. */
function resourceText({ resource }: TelemetryPlan, version: string): string {
  const own = { 'service.version': version, 'host.name': hostname(), 'process.pid': process.pid };
  return `{"attributes":[${attributesText({ ...own, ...resource })}]}`;
}
