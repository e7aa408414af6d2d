/**
 * Malformed or malicious input on the events gateway's connections, and a few valid requests: bytes, answers, and
 * whether the connection stays open. Includes the cases for every door, and the gateway's own. The gateway has a table
 * `t (n int)` and the host name `h`.
 */
import { limits } from '../../../src/config/limits.ts';
import { chunked, post } from '../raw-http.ts';
import { head, hostileConnections } from './connections.ts';
import type { Connection } from './connections.ts';

export const e = '/v1/events?name=t';
export const sql = '/v1/sql';
export const select = 'SELECT count(*) FROM t';
export const row = '{"n":1}';
const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;

const ofEveryDoor = hostileConnections({
  good: e,
  body: row,
  nowhere: '/v1/nothing',
  missing: '404 route_unknown',
});

export const gatewayOnly: Connection[] = [
  // Valid requests.
  ['SQL', post(sql, select), ['200'], 'stays'],
  ['a body that looks like a request', post(sql, post(sql, select)), ['400 42601'], 'stays'],

  // Targets and methods.
  ['dot segments', post('/v1/../v1/sql', select), ['404 route_unknown'], 'stays'],
  ['a letter as an escape', post('/v1/sq%6c', select), ['200'], 'stays'],
  ['a slash as an escape', post('/v1%2fsql', select), ['404 route_unknown'], 'stays'],
  ['a fragment', post(`${sql}#x`, select), ['400 malformed_path'], 'closes'],
  ['a fragment in place of the query', post('/v1/events#?name=t', row), ['400 malformed_path'], 'closes'],
  ['a broken escape', post('/v1/%zz', row), ['400 malformed_path'], 'closes'],
  ['an escape that is not UTF-8', post('/v1/%ff', row), ['400 malformed_path'], 'closes'],
  ['another host in the target', post('http://169.254.169.254/latest', row), ['404 route_unknown'], 'stays'],
  ['OPTIONS *', head('OPTIONS * HTTP/1.1'), ['405 method_not_allowed'], 'stays'],
  ['TRACE', head(`TRACE ${sql} HTTP/1.1`), ['405 method_not_allowed'], 'stays'],
  ['PURGE with a body', post(sql, select).replace('POST', 'PURGE'), ['405 method_not_allowed'], 'stays'],
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
  ['far too large SQL, unsent', head(`POST ${sql} HTTP/1.1`, 'Content-Length: 999999999999'), ['413 body_too_large'], 'closes'],
  ['a body in too many small chunks', chunked(e, Array.from({ length: limits.bodyPiecesMax * 2 }, () => ' ')), ['400 malformed_request'], 'closes'],
  ['SQL in too many small chunks', chunked(sql, Array.from({ length: limits.bodyPiecesMax * 2 }, () => ' ')), ['400 malformed_request'], 'closes'],
  ['gzip that is none', post(e, row, 'Content-Encoding: gzip\r\n'), ['400 malformed_query'], 'stays'],
  ['Expect without the right name', lines(`POST ${e} HTTP/1.1`, 'Host: evil', 'Expect: 100-continue', 'Content-Length: 9'), ['403 host_refused'], 'closes'],

  // Broken HTTP.
  ['two Authorizations', post(e, row, 'Authorization: Bearer a\r\nauthorization: Bearer b\r\n'), ['400 malformed_request'], 'closes'],
  ['a bad chunk behind a good one, of SQL', chunked(sql, ['DELETE FROM t', ' WHERE true']).replace('b\r\n WHERE', 'zz\r\n WHERE'), ['400 malformed_request'], 'closes'],

  // Several on one connection.
  ['garbage behind two good ones', `${post(sql, 'SELECT pg_sleep(0.05)')}${post(e, row)}garbage\r\n\r\n`, ['200', '200', '400 malformed_request'], 'closes'],
  ['a broken body behind two good ones', post(sql, 'SELECT pg_sleep(0.05)') + post(e, row) + chunked(e, [row]).replace('7\r\n', 'zz\r\n'), ['200', '200', '400 malformed_request'], 'closes'],
  ['a request in the body of a refused one', post('/v1/nothing', post(e, row)) + post(sql, select), ['404 route_unknown', '200'], 'stays'],
  ['more that wait than may', post(sql, 'SELECT pg_sleep(0.02)').repeat(limits.pipelinedRequestsMax + 1), [...Array<string>(limits.pipelinedRequestsMax).fill('200'), '503 overloaded'], 'closes'],
]; // prettier-ignore

export const gatewayConnections: Connection[] = [...ofEveryDoor, ...gatewayOnly];
