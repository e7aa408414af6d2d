/** The header `traceparent` of W3C Trace Context (https://www.w3.org/TR/trace-context/#traceparent-header): text to values. Pure. */

export interface SpanContext {
  /** 32 and 16 hexadecimal digits, in lower case, not all zero. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** `value`: the header as received, several joined by commas; null: it says nothing that may be used. */
export function parseTraceparent(value: string | undefined): SpanContext | null {
  if (value === undefined) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(value) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Of a traced request. */
export const traceparentOf = (traceId: string, spanId: string): string => `00-${traceId}-${spanId}-01`;

/** What it was made of. */
export const idsOf = (traceparent: string): Pick<SpanContext, 'traceId' | 'spanId'> => ({
  traceId: traceparent.slice(3, 35),
  spanId: traceparent.slice(36, 52),
});
