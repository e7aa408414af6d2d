/**
 * What comes over the events gateway's connections by mistake or by malice, and a few requests that are good: bytes,
 * answers, and whether the connection stays. The gateway has a table `t (n int)` and is called `h`.
 */
import { limits } from '../../../src/tables/limits.ts';
import { chunked, post } from '../raw-http.ts';

export const e = '/v1/events?name=t';
export const sql = '/v1/sql';
export const select = 'SELECT count(*) FROM t';
export const row = '{"n":1}';
const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;
const head = (start: string, ...rest: string[]) => lines(start, 'Host: h', ...rest);

export type End = 'closes' | 'stays';

/** Name, bytes of one connection, its answers in order (`200` or `status code`), and whether the connection is then closed. */
export const gatewayConnections: [name: string, bytes: string, answers: string[], end: End][] = [
  // What is good.
  ['an event', post(e, row), ['200'], 'stays'],
  ['SQL', post(sql, select), ['200'], 'stays'],
  ['chunked', chunked(e, ['{"n', '":1}']), ['200'], 'stays'],
  ['chunked, with trailers that are ignored', chunked(e, [row], '', 'X-Late: 1\r\n'), ['200'], 'stays'],
  ['chunked, with chunk extensions', chunked(e, []).replace('0\r\n', '7;a=b\r\n{"n":1}\r\n0\r\n'), ['200'], 'stays'],
  ['the absolute form', post(`http://h${e}`, row), ['200'], 'stays'],
  ['a blank line before the request', `\r\n${post(e, row)}`, ['200'], 'stays'],
  ['HTTP/1.0', post(e, row).replace('HTTP/1.1', 'HTTP/1.0'), ['200'], 'closes'],
  ['HTTP/1.0 without Host', post(e, row).replace('1.1\r\nHost: h', '1.0'), ['200'], 'closes'],
  ['Connection: close', post(e, row, 'Connection: close\r\n'), ['200'], 'closes'],
  ['Expect: 100-continue', post(e, row, 'Expect: 100-continue\r\n'), ['100', '200'], 'stays'],
  ['a POST that offers h2c', post(e, row, 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n'), ['200'], 'stays'],
  ['three pipelined, answered in order', post(e, row) + post('/v1/nothing', row) + post(sql, select), ['200', '404 route_unknown', '200'], 'stays'],
  ['a body that looks like a request', post(sql, post(sql, select)), ['400 42601'], 'stays'],
  ['200 headers', post(e, row, 'X: 1\r\n'.repeat(198)), ['200'], 'stays'],

  // Targets and methods.
  ['another path', post('/', row), ['404 route_unknown'], 'stays'],
  ['dot segments', post('/v1/../v1/sql', select), ['404 route_unknown'], 'stays'],
  ['a letter as an escape', post('/v1/sq%6c', select), ['200'], 'stays'],
  ['a slash as an escape', post('/v1%2fsql', select), ['404 route_unknown'], 'stays'],
  ['a fragment', post(`${sql}#x`, select), ['400 malformed_path'], 'closes'],
  ['a fragment in place of the query', post('/v1/events#?name=t', row), ['400 malformed_path'], 'closes'],
  ['a broken escape', post('/v1/%zz', row), ['400 malformed_path'], 'closes'],
  ['an escape that is not UTF-8', post('/v1/%ff', row), ['400 malformed_path'], 'closes'],
  ['another host in the target', post('http://169.254.169.254/latest', row), ['404 route_unknown'], 'stays'],
  ['OPTIONS *', head('OPTIONS * HTTP/1.1'), ['405 method_not_allowed'], 'stays'],
  ['GET of a route', head(`GET ${sql} HTTP/1.1`), ['405 method_not_allowed'], 'stays'],
  ['TRACE', head(`TRACE ${sql} HTTP/1.1`), ['405 method_not_allowed'], 'stays'],
  ['PURGE with a body', post(sql, select).replace('POST', 'PURGE'), ['405 method_not_allowed'], 'stays'],
  ['CONNECT', head('CONNECT a:443 HTTP/1.1'), ['405 method_not_allowed'], 'closes'],
  ['a WebSocket', head(`GET ${sql} HTTP/1.1`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='), ['405 method_not_allowed'], 'stays'],

  // Parameters.
  ['an unknown parameter', post(`${e}&onconflict=update`, row), ['400 malformed_query'], 'stays'],
  ['an unknown parameter of SQL', post(`${sql}?databse=dev`, select), ['400 malformed_query'], 'stays'],
  ['a parameter twice', post(`${e}&on_error=skip&on_error=skip`, row), ['400 malformed_query'], 'stays'],
  ['a value in other letters', post(`${e}&on_error=Skip`, row), ['400 malformed_query'], 'stays'],
  ['nothing between two parameters', post(`${e}&&on_error=fail&`, row), ['200'], 'stays'],
  ['an unknown member of SQL', post(sql, '{"sql":"SELECT count(*) FROM t","parameters":[1]}'), ['400 malformed_query'], 'stays'],

  // Bodies.
  ['no length', head(`POST ${e} HTTP/1.1`), ['422 event_not_object'], 'stays'],
  ['far too large, unsent', head(`POST ${e} HTTP/1.1`, 'Content-Length: 999999999999'), ['413 body_too_large'], 'closes'],
  ['far too large SQL, unsent', head(`POST ${sql} HTTP/1.1`, 'Content-Length: 999999999999'), ['413 body_too_large'], 'closes'],
  ['far too large to count', head(`POST ${e} HTTP/1.1`, `Content-Length: ${'9'.repeat(40)}`), ['400 malformed_request'], 'closes'],
  ['a body in too many small chunks', chunked(e, Array.from({ length: limits.bodyPiecesMax * 2 }, () => ' ')), ['400 malformed_request'], 'closes'],
  ['SQL in too many small chunks', chunked(sql, Array.from({ length: limits.bodyPiecesMax * 2 }, () => ' ')), ['400 malformed_request'], 'closes'],
  ['a coding that is not known', post(e, row, 'Content-Encoding: constructor\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['gzip that is none', post(e, row, 'Content-Encoding: gzip\r\n'), ['400 malformed_query'], 'stays'],
  ['Expect on another path', head('POST /v1/nothing HTTP/1.1', 'Expect: 100-continue', 'Content-Length: 9'), ['404 route_unknown'], 'closes'],
  ['Expect without the right name', lines(`POST ${e} HTTP/1.1`, 'Host: evil', 'Expect: 100-continue', 'Content-Length: 9'), ['403 host_refused'], 'closes'],
  ['another expectation', post(e, row, 'Expect: coffee\r\n'), ['417 expectation_failed'], 'closes'],

  // Broken HTTP.
  ['no HTTP at all', 'hello\r\n\r\n', ['400 malformed_request'], 'closes'],
  ['a TLS client hello', '\x16\x03\x01\x02\x00\x01\x00', ['400 malformed_request'], 'closes'],
  ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', ['400 malformed_request'], 'closes'],
  ['HTTP/0.9', `POST ${e}\r\n\r\n`, ['400 malformed_request'], 'closes'],
  ['HTTP/0.9 in words', post(e, row).replace('HTTP/1.1', 'HTTP/0.9'), ['400 malformed_request'], 'closes'],
  ['HTTP/2.0 in words', post(e, row).replace('HTTP/1.1', 'HTTP/2.0'), ['400 malformed_request'], 'closes'],
  ['HTTP/1.2', post(e, row).replace('HTTP/1.1', 'HTTP/1.2'), ['400 malformed_request'], 'closes'],
  ['an unknown method', post(e, row).replace('POST', 'BREW'), ['400 malformed_request'], 'closes'],
  ['no Host', post(e, row).replace('Host: h\r\n', ''), ['400 malformed_request'], 'closes'],
  ['two Hosts', post(e, row, 'host: h\r\n'), ['400 malformed_request'], 'closes'],
  ['two Hosts that differ', post(e, row, 'Host: evil\r\n'), ['400 malformed_request'], 'closes'],
  ['two Authorizations', post(e, row, 'Authorization: Bearer a\r\nauthorization: Bearer b\r\n'), ['400 malformed_request'], 'closes'],
  ['two lengths', post(e, row, 'Content-Length: 7\r\n'), ['400 malformed_request'], 'closes'],
  ['a signed length', post(e, row).replace('Length: 7', 'Length: +7'), ['400 malformed_request'], 'closes'],
  ['a list of lengths', post(e, row).replace('Length: 7', 'Length: 7, 7'), ['400 malformed_request'], 'closes'],
  ['length and chunked', chunked(e, [row], 'Content-Length: 2\r\n'), ['400 malformed_request'], 'closes'],
  ['TE: gzip, chunked', chunked(e, [row]).replace('chunked', 'gzip, chunked'), ['415 encoding_unsupported'], 'closes'],
  ['TE: chunked, gzip', chunked(e, [row]).replace('chunked', 'chunked, gzip'), ['400 malformed_request'], 'closes'],
  ['TE: chunked twice', chunked(e, [row], 'Transfer-Encoding: chunked\r\n'), ['400 malformed_request'], 'closes'],
  ['TE: xchunked', chunked(e, [row]).replace('chunked', 'xchunked'), ['415 encoding_unsupported'], 'closes'],
  ['HTTP/1.0 and chunked', chunked(e, [row]).replace('HTTP/1.1', 'HTTP/1.0'), ['400 malformed_request'], 'closes'],
  ['a chunk size that is none', chunked(e, [row]).replace('7\r\n{', 'zz\r\n{'), ['400 malformed_request'], 'closes'],
  ['a chunk longer than it says', chunked(e, [row]).replace('7\r\n{', '1\r\n{'), ['400 malformed_request'], 'closes'],
  ['a negative chunk', chunked(e, [row]).replace('7\r\n{', '-7\r\n{'), ['400 malformed_request'], 'closes'],
  ['a bad chunk behind a good one, of SQL', chunked(sql, ['DELETE FROM t', ' WHERE true']).replace('b\r\n WHERE', 'zz\r\n WHERE'), ['400 malformed_request'], 'closes'],
  ['a space before the colon', post(e, row, 'X-A : b\r\n'), ['400 malformed_request'], 'closes'],
  ['a header line without colon', post(e, row, 'nonsense\r\n'), ['400 malformed_request'], 'closes'],
  ['a folded header', post(e, row, 'X-A: b\r\n c\r\n'), ['400 malformed_request'], 'closes'],
  ['a NUL in a header', post(e, row, 'X-A: b\0c\r\n'), ['400 malformed_request'], 'closes'],
  ['a lone CR in a header', post(e, row, 'X-A: b\rc\r\n'), ['400 malformed_request'], 'closes'],
  ['a lone LF in a header', post(e, row, 'X-A: b\nContent-Length: 5\r\n'), ['400 malformed_request'], 'closes'],
  ['lone LFs everywhere', post(e, row).replaceAll('\r\n', '\n'), ['400 malformed_request'], 'closes'],
  ['a space in the target', post(`${e} x`, row), ['400 malformed_request'], 'closes'],
  ['201 headers', post(e, row, 'X: 1\r\n'.repeat(199)), ['431 headers_too_large'], 'closes'],
  ['3,000 headers', post(e, row, 'X:\r\n'.repeat(3000)), ['431 headers_too_large'], 'closes'],
  ['a header too long', post(e, row, `X: ${'x'.repeat(20_000)}\r\n`), ['431 headers_too_large'], 'closes'],
  ['a target too long', post(`${e}&x=${'x'.repeat(9_000)}`, row), ['414 path_too_long'], 'closes'],

  // Several on one connection.
  ['garbage behind a good request', `${post(e, row)}\x01\x02`, ['200', '400 malformed_request'], 'closes'],
  ['garbage behind two good ones', `${post(sql, 'SELECT pg_sleep(0.05)')}${post(e, row)}garbage\r\n\r\n`, ['200', '200', '400 malformed_request'], 'closes'],
  ['a broken body behind two good ones', post(sql, 'SELECT pg_sleep(0.05)') + post(e, row) + chunked(e, [row]).replace('7\r\n', 'zz\r\n'), ['200', '200', '400 malformed_request'], 'closes'],
  ['a good request behind a refused one', post(e, row, 'host: h\r\n') + post(e, row), ['400 malformed_request'], 'closes'],
  ['a request in the body of a refused one', post('/v1/nothing', post(e, row)) + post(sql, select), ['404 route_unknown', '200'], 'stays'],
  ['more that wait than may', post(sql, 'SELECT pg_sleep(0.02)').repeat(limits.pipelinedRequestsMax + 1), [...Array<string>(limits.pipelinedRequestsMax).fill('200'), '503 overloaded'], 'closes'],
]; // prettier-ignore
