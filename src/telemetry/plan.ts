/**
 * What is sent to whom, by the settings: takes Settings, returns a plan, or none, and every reason why the settings cannot be used. They are looked at only
 * if there is a receiver and it is not switched off, because other programs read the same variables. Pure.
 */
import { Networks } from '../kit/networks.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import type { Sampler } from './tracer.ts';

export interface TelemetryPlan {
  /** Where traces go; null: nowhere. */
  readonly traces: URL | null;
  readonly metrics: URL | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: Sampler;
  /** null: no sender is believed. */
  readonly trusted: Networks | null;
}

type TelemetrySettings = Pick<
  Settings,
  | 'otlpEndpoint'
  | 'otlpTracesEndpoint'
  | 'otlpMetricsEndpoint'
  | 'otlpHeaders'
  | 'otlpProtocol'
  | 'otelServiceName'
  | 'otelResourceAttributes'
  | 'otelTracesExporter'
  | 'otelTracesSampler'
  | 'otelTracesSamplerArg'
  | 'otelMetricsExporter'
  | 'otelSdkDisabled'
  | 'traceTrust'
>;

const samplers: Readonly<Record<string, 'on' | 'off' | 'ratio'>> = {
  always_on: 'on',
  always_off: 'off',
  traceidratio: 'ratio',
};

/** Names and values of HTTP headers (RFC 9110 §5.6.2, §5.5). */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const headerValue = /^[\x20-\x7e]*$/;
/** What the message itself has. */
const ownHeaders = new Set(['host', 'content-type', 'content-length', 'transfer-encoding', 'connection']);

export function telemetryPlan(settings: TelemetrySettings): {
  readonly plan: TelemetryPlan | null;
  readonly problems: readonly string[];
} {
  const { otlpEndpoint, otlpTracesEndpoint, otlpMetricsEndpoint, otelSdkDisabled } = settings;
  const { otelTracesExporter, otelMetricsExporter, otlpProtocol, traceTrust } = settings;
  if (otelSdkDisabled.toLowerCase() === 'true') return { plan: null, problems: [] };
  const problems: string[] = [];
  const endpoint = (own: string | null, name: string, path: string): URL | null => {
    if (own === null && otlpEndpoint === null) return null;
    const [text, env] =
      own === null
        ? [`${otlpEndpoint?.replace(/\/$/, '')}${path}`, 'OTEL_EXPORTER_OTLP_ENDPOINT']
        : [own, `OTEL_EXPORTER_OTLP_${name}_ENDPOINT`];
    const url = URL.canParse(text) ? new URL(text) : null;
    const isPlain = url !== null && url.username + url.password + url.hash === '';
    if (isPlain && /^https?:$/.test(url.protocol)) return url;
    problems.push(`${env} must be an http:// or https:// URL without a user, password or fragment`);
    return null;
  };
  const wants = (word: string, env: string): boolean => {
    if (word !== 'otlp' && word !== 'none') problems.push(`${env} must be otlp or none`);
    return word === 'otlp';
  };
  const hasReceiver = [otlpEndpoint, otlpTracesEndpoint, otlpMetricsEndpoint].some((it) => it !== null);
  if (!hasReceiver) return { plan: null, problems: [] };
  const traces = wants(otelTracesExporter, 'OTEL_TRACES_EXPORTER')
    ? endpoint(otlpTracesEndpoint, 'TRACES', '/v1/traces')
    : null;
  const metrics = wants(otelMetricsExporter, 'OTEL_METRICS_EXPORTER')
    ? endpoint(otlpMetricsEndpoint, 'METRICS', '/v1/metrics')
    : null;
  if (otlpProtocol !== 'http/json' && otlpProtocol !== 'http/protobuf')
    problems.push(
      `OTEL_EXPORTER_OTLP_PROTOCOL=${otlpProtocol} is not spoken here: set http/json, and the receiver's port for HTTP, mostly 4318`,
    );
  const headers = headersOf(settings, problems);
  const resource = resourceOf(settings, problems);
  const sampler = samplerOf(settings, problems);
  if (problems.length > 0) return { plan: null, problems };
  if (traces === null && metrics === null) return { plan: null, problems };
  const trusted = traceTrust === null ? null : Networks.parse(traceTrust);
  return {
    plan: {
      traces,
      metrics,
      headers,
      resource,
      sampler,
      trusted: trusted instanceof Networks ? trusted : null,
    },
    problems,
  };
}

function headersOf({ otlpHeaders }: TelemetrySettings, problems: string[]): Readonly<Record<string, string>> {
  const env = 'OTEL_EXPORTER_OTLP_HEADERS';
  const read = pairsOf(otlpHeaders, env, problems);
  for (const [name, value] of Object.entries(read)) {
    if (!headerName.test(name) || ownHeaders.has(name.toLowerCase()))
      problems.push(`${env} has "${name}", which is not the name of a header that may be given`);
    else if (!headerValue.test(value)) problems.push(`${env}: the value of ${name} must be printable ASCII`);
  }
  return read;
}

function resourceOf(
  { otelServiceName, otelResourceAttributes }: TelemetrySettings,
  problems: string[],
): Readonly<Record<string, string>> {
  const given = pairsOf(otelResourceAttributes, 'OTEL_RESOURCE_ATTRIBUTES', problems);
  return { ...given, 'service.name': otelServiceName ?? given['service.name'] ?? 'headgate' };
}

function samplerOf(
  { otelTracesSampler, otelTracesSamplerArg }: TelemetrySettings,
  problems: string[],
): Sampler {
  const base = otelTracesSampler.replace(/^parentbased_/, '');
  const kind = Object.hasOwn(samplers, base) ? samplers[base] : undefined;
  if (kind === undefined)
    problems.push(
      'OTEL_TRACES_SAMPLER must be always_on, always_off, traceidratio, or one of them after parentbased_',
    );
  const arg = /^(0|1|0?\.\d{1,12}|1\.0+|0\.0*)$/.test(otelTracesSamplerArg)
    ? Number(otelTracesSamplerArg)
    : Number.NaN;
  if (kind === 'ratio' && Number.isNaN(arg))
    problems.push('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, such as 0.01');
  const ratio = kind === 'on' ? 1 : kind === 'off' ? 0 : arg;
  return { isParentBased: base !== otelTracesSampler, ratio };
}

/** `name=value,…`, values percent-encoded, as in the header of W3C Baggage. */
function pairsOf(text: string | null, env: string, problems: string[]): Record<string, string> {
  const pairs: Record<string, string> = {};
  if (text === null) return pairs;
  const words = text.split(',').filter((word) => word.trim() !== '');
  if (words.length > limits.telemetryPairsMax)
    problems.push(`${env} has more than ${limits.telemetryPairsMax} entries`);
  for (const word of words.slice(0, limits.telemetryPairsMax)) {
    const [, name = '', value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(word) ?? [];
    try {
      if (name === '') throw new URIError();
      pairs[name] = decodeURIComponent(value);
    } catch {
      // The value may be a secret.
      problems.push(`${env} must be name=value, separated by commas, values percent-encoded`);
      return pairs;
    }
  }
  return pairs;
}
