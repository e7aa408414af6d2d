/** A request as a curl command that sends it, for a POSIX shell. Pure. */
import { isUtf8 } from 'node:buffer';
import type { HandshakeQuery } from './sender.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function curlOf({ method, url, headers, body }: HandshakeQuery): string {
  // A quoted text may contain anything but NUL; curl would take a leading @ for a file.
  const text = isUtf8(body) && !body.includes(0) ? body.toString() : null;
  const byPipe = text === null || text.startsWith('@');
  const lines = [
    method === 'HEAD' ? 'curl --head' : `curl -X ${method}`,
    // curl needs a semicolon after a header without a value.
    ...Object.entries(headers).map(
      ([name, value]) => `-H ${quoted(value === '' ? `${name};` : `${name}: ${value}`)}`,
    ),
    ...(body.length === 0 && method !== 'POST' ? [] : [`--data-binary ${byPipe ? '@-' : quoted(text)}`]),
    quoted(url),
  ];
  const command = lines.join(' \\\n  ');
  return byPipe ? `printf %s ${quoted(body.toString('base64'))} | base64 -d | ${command}` : command;
}
