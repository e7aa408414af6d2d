/**
 * Malformed or malicious input on a connection of either HTTP door, and a few valid requests: bytes, answers, and whether the
 * connection stays open. Both doors are based on src/http, and give the same answers wherever it answers for them.
 */
import { chunked, post } from '../raw-http.ts';

const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;
export const head = (start: string, ...rest: string[]) => lines(start, 'Host: h', ...rest);
const offersH2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n';

export type End = 'closes' | 'stays';

/** Name, bytes of one connection, its answers in order (`200` or `status code`), and whether the connection is then closed. */
export type Connection<E extends string = End> = [name: string, bytes: string, answers: string[], end: E];

/** How to address a door. Its host name is `h`. */
export interface AskedDoor {
  /** A target that answers 200 to `body`, whose first byte is `{`. */
  readonly good: string;
  readonly body: string;
  /** A target that answers `missing`, whatever is sent to it. */
  readonly nowhere: string;
  readonly missing: string;
}

export function hostileConnections({ good: t, body, nowhere, missing }: AskedDoor): Connection[] {
  const n = body.length;
  const halves = [body.slice(0, 1), body.slice(1)];
  const whole = post(t, body);
  const inChunks = chunked(t, [body]);
  const size = (text: string) => inChunks.replace(`${n.toString(16)}\r\n{`, `${text}\r\n{`);
  const malformed = ['400 malformed_request'];
  const tooManyHeaders = ['431 headers_too_large'];
  return [
    // Valid requests.
    ['a POST', whole, ['200'], 'stays'],
    ['a chunked POST', chunked(t, halves), ['200'], 'stays'],
    ['a chunked POST with trailers', chunked(t, [body], '', 'X-Late: 1\r\n'), ['200'], 'stays'],
    ['a chunked POST with chunk extensions', size(`${n.toString(16)};a=b`), ['200'], 'stays'],
    ['Transfer-Encoding: CHUNKED', inChunks.replace('chunked', 'CHUNKED'), ['200'], 'stays'],
    ['Content-Encoding: identity', post(t, body, 'Content-Encoding: identity\r\n'), ['200'], 'stays'],
    ['a target in absolute form', post(`http://h${t}`, body), ['200'], 'stays'],
    ['a blank line before the request', `\r\n${whole}`, ['200'], 'stays'],
    ['Expect: 100-continue', post(t, body, 'Expect: 100-continue\r\n'), ['100', '200'], 'stays'],
    ['a POST in HTTP/1.0', whole.replace('HTTP/1.1', 'HTTP/1.0'), ['200'], 'closes'],
    ['HTTP/1.0 without Host', whole.replace('1.1\r\nHost: h', '1.0'), ['200'], 'closes'],
    ['Connection: close', post(t, body, 'Connection: close\r\n'), ['200'], 'closes'],
    ['three pipelined requests', whole + post(nowhere, body) + whole, ['200', missing, '200'], 'stays'],
    ['200 headers', post(t, body, 'X: 1\r\n'.repeat(198)), ['200'], 'stays'],
    ['a POST that offers h2c', post(t, body, offersH2c), ['200'], 'stays'],
    ['two pipelined POSTs that offer h2c', post(t, body, offersH2c).repeat(2), ['200', '200'], 'stays'],
    ['a chunked POST that offers h2c and a plain POST behind it', chunked(t, halves, offersH2c) + whole, ['200', '200'], 'stays'],
    ['a POST that offers h2c with Expect: 100-continue', post(t, body, `${offersH2c}Expect: 100-continue\r\n`), ['100', '200'], 'stays'],
    ['a DELETE that offers h2c and a POST behind it', head(`DELETE ${t} HTTP/1.1`, offersH2c.trimEnd()) + whole, ['405 method_not_allowed', '200'], 'stays'],

    // Other paths, methods and bodies.
    ['a POST to the path /', post('/', body), [missing], 'stays'],
    ['DELETE', head(`DELETE ${t} HTTP/1.1`), ['405 method_not_allowed'], 'stays'],
    ['PUT with a small body', whole.replace('POST', 'PUT'), ['405 method_not_allowed'], 'stays'],
    ['CONNECT', head('CONNECT a:443 HTTP/1.1'), ['405 method_not_allowed'], 'closes'],
    ['a body far too large, unsent', head(`POST ${t} HTTP/1.1`, 'Content-Length: 999999999999'), ['413 body_too_large'], 'closes'],
    ['a Content-Length of 40 digits', head(`POST ${t} HTTP/1.1`, `Content-Length: ${'9'.repeat(40)}`), malformed, 'closes'],
    ['Content-Encoding: constructor', post(t, body, 'Content-Encoding: constructor\r\n'), ['415 encoding_unsupported'], 'stays'],
    ['Content-Encoding: gzip on an unknown path', post(nowhere, body, 'Content-Encoding: gzip\r\n'), [missing], 'stays'],
    ['Expect: 100-continue on an unknown path', head(`POST ${nowhere} HTTP/1.1`, 'Expect: 100-continue', 'Content-Length: 9'), [missing], 'closes'],
    ['Expect: coffee', post(t, body, 'Expect: coffee\r\n'), ['417 expectation_failed'], 'closes'],

    // Broken HTTP.
    ['bytes that are not HTTP', 'hello\r\n\r\n', malformed, 'closes'],
    ['a TLS client hello', '\x16\x03\x01\x02\x00\x01\x00', malformed, 'closes'],
    ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', malformed, 'closes'],
    ['an HTTP/0.9 request', `POST ${t}\r\n\r\n`, malformed, 'closes'],
    ['the version HTTP/0.9', whole.replace('HTTP/1.1', 'HTTP/0.9'), malformed, 'closes'],
    ['the version HTTP/2.0', whole.replace('HTTP/1.1', 'HTTP/2.0'), malformed, 'closes'],
    ['the version HTTP/1.2', whole.replace('HTTP/1.1', 'HTTP/1.2'), malformed, 'closes'],
    ['an unknown method', whole.replace('POST', 'BREW'), malformed, 'closes'],
    ['a request without Host', whole.replace('Host: h\r\n', ''), malformed, 'closes'],
    ['two Hosts', post(t, body, 'host: h\r\n'), malformed, 'closes'],
    ['two Hosts that differ', post(t, body, 'Host: evil\r\n'), malformed, 'closes'],
    ['two Content-Length headers', post(t, body, `Content-Length: ${n}\r\n`), malformed, 'closes'],
    ['a signed Content-Length', whole.replace('Length: ', 'Length: +'), malformed, 'closes'],
    ['a list in Content-Length', whole.replace(`Length: ${n}`, `Length: ${n}, ${n}`), malformed, 'closes'],
    ['Content-Length before chunked', chunked(t, [body], 'Content-Length: 2\r\n'), malformed, 'closes'],
    ['chunked before Content-Length', inChunks.replace('chunked', `chunked\r\nContent-Length: ${n}`), malformed, 'closes'],
    ['Transfer-Encoding: gzip, chunked', inChunks.replace('chunked', 'gzip, chunked'), ['415 encoding_unsupported'], 'closes'],
    ['Transfer-Encoding: chunked, gzip', inChunks.replace('chunked', 'chunked, gzip'), malformed, 'closes'],
    ['Transfer-Encoding: chunked twice', chunked(t, [body], 'Transfer-Encoding: chunked\r\n'), malformed, 'closes'],
    ['Transfer-Encoding: xchunked', inChunks.replace('chunked', 'xchunked'), ['415 encoding_unsupported'], 'closes'],
    ['a chunked POST in HTTP/1.0', inChunks.replace('HTTP/1.1', 'HTTP/1.0'), malformed, 'closes'],
    ['a chunk size that is no number', size('zz'), malformed, 'closes'],
    ['a chunk longer than its size', size('1'), malformed, 'closes'],
    ['a negative chunk size', size(`-${n}`), malformed, 'closes'],
    ['a space before the colon of a header', post(t, body, 'X-A : b\r\n'), malformed, 'closes'],
    ['a header line without colon', post(t, body, 'nonsense\r\n'), malformed, 'closes'],
    ['a folded header', post(t, body, 'X-A: b\r\n c\r\n'), malformed, 'closes'],
    ['a NUL in a header', post(t, body, 'X-A: b\0c\r\n'), malformed, 'closes'],
    ['a lone CR in a header', post(t, body, 'X-A: b\rc\r\n'), malformed, 'closes'],
    ['a lone LF in a header', post(t, body, 'X-A: b\nContent-Length: 5\r\n'), malformed, 'closes'],
    ['lone LFs at all line ends', whole.replaceAll('\r\n', '\n'), malformed, 'closes'],
    ['a space in the target', post(`${t} x`, body), malformed, 'closes'],
    ['201 headers', post(t, body, 'X: 1\r\n'.repeat(199)), tooManyHeaders, 'closes'],
    ['3,000 headers', post(t, body, 'X:\r\n'.repeat(3000)), tooManyHeaders, 'closes'],
    ['a header too long', post(t, body, `X: ${'x'.repeat(20_000)}\r\n`), tooManyHeaders, 'closes'],
    ['a target too long', post(`${t}${t.includes('?') ? '&' : '?'}x=${'x'.repeat(9_000)}`, body), ['414 path_too_long'], 'closes'],
    ['garbage behind a request', `${whole}\x01\x02`, ['200', ...malformed], 'closes'],
    ['a request behind a malformed one', post(t, body, 'host: h\r\n') + whole, malformed, 'closes'],
  ]; // prettier-ignore
}
