/**
 * Judges what Node's HTTP parser accepts, or reports in its own words. Pure: takes a parsed request or a
 * parser error, returns a refusal or null.
 */
import type { IncomingMessage } from 'node:http';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';
import { refusal } from '../errors/refusals.ts';

/**
 * Refuses requests whose meaning is in doubt; the connection is then closed. Node's parser accepts the version
 * numbers 0.9 and 2.0, several Hosts, transfer codings before `chunked`, and chunked bodies in HTTP/1.0; a
 * proxy in front may read such a request differently (RFC 9112 §3.2, §6.1, §11.2).
 */
export function protocolRefusal(request: IncomingMessage, limits: Limits): Refusal | null {
  const { rawHeaders } = request;
  if (rawHeaders.length > limits.headersCountMax * 2) return refusal('headers_too_large');
  if ((request.url ?? '').length > limits.targetBytesMax) return refusal('path_too_long');
  const { httpVersionMajor: major, httpVersionMinor: minor } = request;
  if (major !== 1 || minor > 1)
    return refusal('malformed_request', 'only HTTP/1.0 and HTTP/1.1 are spoken here');
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && minor === 1)) {
    return refusal('malformed_request', 'exactly one Host header is required');
  }
  const coding = request.headers['transfer-encoding'];
  if (coding === undefined) return null;
  if (minor === 0) return refusal('malformed_request', 'HTTP/1.0 has no Transfer-Encoding');
  if (coding.toLowerCase() !== 'chunked')
    return refusal('encoding_unsupported', 'unsupported transfer encoding');
  return null;
}

/** A parser error, a timeout or an early end of the connection, as the refusal that its sender gets. */
export function refusalForParserError(error: NodeJS.ErrnoException & { rawPacket?: Buffer }): Refusal {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refusal('request_timeout');
    case 'HPE_INVALID_EOF_STATE':
      return refusal('request_aborted');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return refusal('body_too_large', 'the chunk extensions are too large');
    case 'HPE_HEADER_OVERFLOW': {
      // The parser does not say what overflowed; if no line has ended, it was the request line.
      const packet = error.rawPacket;
      const inTarget = packet !== undefined && /^[A-Z]+ [^\n]*$/.test(packet.toString('latin1'));
      return refusal(inTarget ? 'path_too_long' : 'headers_too_large');
    }
    default:
      return refusal('malformed_request');
  }
}

/**
 * Whether the request that the parser could not read is a HEAD, whose answers have no body: known if its first line
 * arrived in the same piece as the error. The last such line is its own: no header looks like one.
 */
export function isHeadOfParserError({ rawPacket }: { readonly rawPacket?: Buffer }): boolean {
  if (rawPacket === undefined) return false;
  const text = rawPacket.toString('latin1');
  const whole = [...text.matchAll(/([A-Z]+) [^ \r\n]+ HTTP\/\d\.\d\r?\n/g)].at(-1);
  return (whole ?? /([A-Z]+) [^ \r\n]*$/.exec(text))?.[1] === 'HEAD';
}
