/** WebSocket frames byte by byte, including some that no client library would send. */
import { RawClient } from './raw-http.ts';

export interface FrameOptions {
  readonly fin?: boolean;
  readonly rsv?: number;
  readonly masked?: boolean;
  /** The length that the frame claims to have. */
  readonly claims?: number;
}

export const opcodes = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

export function frame(opcode: number, payload: string | Buffer, options: FrameOptions = {}): Buffer {
  const body = Buffer.from(payload);
  const { fin = true, rsv = 0, masked = true, claims = body.length } = options;
  const first = (fin ? 128 : 0) | (rsv << 4) | opcode;
  const mask = masked ? 128 : 0;
  let head: Buffer;
  if (claims < 126) head = Buffer.from([first, mask | claims]);
  else if (claims < 65_536) head = Buffer.from([first, mask | 126, claims >> 8, claims & 255]);
  else {
    head = Buffer.alloc(10);
    head.writeUInt8(first, 0);
    head.writeUInt8(mask | 127, 1);
    head.writeBigUInt64BE(BigInt(claims), 2);
  }
  if (!masked) return Buffer.concat([head, body]);
  const key = Buffer.from([1, 2, 3, 4]);
  return Buffer.concat([head, key, body.map((byte, i) => byte ^ (key[i % 4] ?? 0))]);
}

export const text = (payload: string) => frame(opcodes.text, payload);
export const init = () => text(JSON.stringify({ type: 'init', timestamp: Date.now() }));

export function handshake(path: string, ...headers: readonly string[]): string {
  const lines = [
    `GET ${path} HTTP/1.1`,
    'Host: h',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** A connection after its handshake. */
export async function rawSocket(port: number, path: string): Promise<RawClient> {
  const client = await RawClient.connect(port);
  client.send(handshake(path));
  const answer = await client.answer();
  if (answer?.status !== 101) throw new Error(`no handshake: ${answer?.head ?? 'closed'}`);
  return client;
}

/** What the server sent before it closed: texts as they are, close frames as their code. */
export async function received(client: RawClient): Promise<(string | number)[]> {
  await client.closed;
  const bytes = Buffer.from(client.unread, 'latin1');
  const messages: (string | number)[] = [];
  for (let at = 0; at + 1 < bytes.length;) {
    const opcode = (bytes[at] ?? 0) & 15;
    const short = bytes[at + 1] ?? 0;
    const begin = at + (short < 126 ? 2 : 4);
    const length = short < 126 ? short : bytes.readUInt16BE(at + 2);
    const payload = bytes.subarray(begin, begin + length);
    if (opcode === opcodes.close) messages.push(payload.length === 0 ? 1005 : payload.readUInt16BE(0));
    else if (opcode === opcodes.text) messages.push(payload.toString());
    else if (opcode === opcodes.pong) messages.push(`pong ${payload.toString()}`);
    at = begin + length;
  }
  return messages;
}
