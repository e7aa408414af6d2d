/**
 * Which requests become WebSockets. Pure: takes a parsed request; returns null if the handshake may be completed, or
 * the refusal that its sender gets over HTTP: `not_found`, `malformed_path`, `upgrade_required`, `origin_refused`,
 * `malformed_request`. Whether the table exists is checked later, with the first frame.
 */
import type { HttpRequest } from '../http/exchange.ts';
import type { Refusal } from '../errors/refusals.ts';
import { refusal } from '../errors/refusals.ts';
import { parseIngestTarget } from '../ingest/routes.ts';

/** Sixteen bytes in base64 (RFC 6455 §4.1). */
const keyPattern = /^[+/0-9A-Za-z]{22}==$/;

/** Whether a page of this origin may open a WebSocket. */
export type OriginRule = (origin: string) => boolean;

/** Reads `https://a.example, https://b.example` or `*`; null: no page may. */
export function originRule(text: string | null): OriginRule {
  const listed = new Set((text ?? '').split(',').map((origin) => origin.trim().toLowerCase()));
  listed.delete('');
  return (origin) => listed.has('*') || listed.has(origin.toLowerCase());
}

export function handshakeRefusal(request: HttpRequest, mayOpen: OriginRule): Refusal | null {
  const { headers, method, httpVersionMajor, httpVersionMinor } = request;
  const table = parseIngestTarget(request.url ?? '');
  if ('code' in table) return table;
  if (method !== 'GET' || httpVersionMajor !== 1 || httpVersionMinor !== 1)
    return refusal('upgrade_required');
  if (headers.upgrade?.toLowerCase() !== 'websocket' || !/\bupgrade\b/i.test(headers.connection ?? ''))
    return refusal('upgrade_required');
  if (headers['sec-websocket-version'] !== '13') return refusal('upgrade_required');
  if (!keyPattern.test(headers['sec-websocket-key'] ?? ''))
    return refusal('malformed_request', 'Sec-WebSocket-Key must be 16 bytes in base64');
  // What follows would be read as a body by some and as frames by others.
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined)
    return refusal('malformed_request', 'a handshake has no body');
  // Browsers let any page open a WebSocket to any host, with the cookies and the network of its reader; only
  // they send an Origin (RFC 6455 §10.2).
  if (headers.origin !== undefined && !mayOpen(headers.origin)) return refusal('origin_refused');
  return null;
}
