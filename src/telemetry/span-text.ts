/**
 * Spans as OTLP in JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): values to text. Pure. The text of each span is made when it
 * ends: to make those of a whole message at one time would hold up the requests that arrive meanwhile.
 */

/** Attributes in the order in which they are written. */
export type Attributes = Readonly<Record<string, string | number>>;

export interface EndedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** ''; it has none. */
  readonly parentSpanId: string;
  /** The parent is in another program. */
  readonly hasRemoteParent: boolean;
  readonly name: string;
  readonly kind: keyof typeof kinds;
  /** ms since 1970, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  /** The text of `attributesText`, of those that many spans share, and the others. */
  readonly shared: string;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly atMs: number }[];
  readonly links: readonly SpanLink[];
  readonly isError: boolean;
}

export interface SpanLink {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  readonly isRemote: boolean;
}

const kinds = { internal: 1, server: 2 } as const;

/** The lowest bit: sampled; the tenth: in another program; the ninth: that the tenth means something. */
const flagsOf = (isSampled: boolean, isRemote: boolean): number =>
  0x100 + (isRemote ? 0x200 : 0) + (isSampled ? 1 : 0);

export function spanText(span: EndedSpan): string {
  const { traceId, spanId, parentSpanId, name, kind, shared, attributes, events, links } = span;
  const parent = parentSpanId === '' ? '' : `,"parentSpanId":"${parentSpanId}"`;
  const own = attributesText(attributes);
  const all = shared === '' || own === '' ? shared + own : `${shared},${own}`;
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}"${parent},"flags":${flagsOf(true, span.hasRemoteParent)},"name":${JSON.stringify(name)},` +
    `"kind":${kinds[kind]},"startTimeUnixNano":"${nanos(span.startMs)}","endTimeUnixNano":"${nanos(span.endMs)}",` +
    `"attributes":[${all}],"events":[${events.map(eventText).join(',')}],"links":[${links.map(linkText).join(',')}],` +
    `"status":${span.isError ? '{"code":2}' : '{}'}}`
  );
}

const eventText = ({ name, atMs }: EndedSpan['events'][number]): string =>
  `{"timeUnixNano":"${nanos(atMs)}","name":${JSON.stringify(name)}}`;

const linkText = ({ traceId, spanId, isSampled, isRemote }: SpanLink): string =>
  `{"traceId":"${traceId}","spanId":"${spanId}","flags":${flagsOf(isSampled, isRemote)}}`;

/** `{"key":…,"value":…},…` */
export function attributesText(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([key, value]) => `{"key":${JSON.stringify(key)},"value":${valueText(value)}}`)
    .join(',');
}

function valueText(value: string | number): string {
  if (typeof value === 'string') return `{"stringValue":${JSON.stringify(value)}}`;
  return Number.isInteger(value) ? `{"intValue":${value}}` : `{"doubleValue":${value}}`;
}

/** A double has no room for the nanoseconds since 1970. */
export function nanos(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, '0')}`;
}

/** One message: `resource` and `scope` are JSON. */
export function tracesText(resource: string, scope: string, spans: readonly string[]): string {
  return `{"resourceSpans":[{"resource":${resource},"scopeSpans":[{"scope":${scope},"spans":[${spans.join(',')}]}]}]}`;
}
