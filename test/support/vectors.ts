/** Signed requests of real senders (test/vectors.json), as the listener would pass them to a check. */
import { readFileSync } from 'node:fs';
import { type CheckRequest } from '../../src/types/request.ts';

export interface Vector {
  readonly id: string;
  readonly provider: string;
  readonly scheme: string;
  readonly secret: string;
  /** Where it is from. */
  readonly source: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body_utf8?: string;
  readonly body_repeat?: { readonly char: string; readonly count: number };
  readonly url?: string;
  /** The time to set, in seconds since 1970. */
  readonly now?: number;
  /** The VALIDATE expression; `s` is the secret, `data` the body. */
  readonly expression: string;
}

/** From dist/test/support back to the checkout's test folder. */
const file = new URL('../../../test/vectors.json', import.meta.url);

export const vectors: readonly Vector[] = JSON.parse(readFileSync(file, 'utf8')) as Vector[];

/** node:http returns bytes as latin1 characters. */
function asReceived(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

export function requestOf(vector: Vector): CheckRequest {
  const body = vector.body_utf8 ?? vector.body_repeat?.char.repeat(vector.body_repeat.count) ?? '';
  const url = vector.url === undefined ? null : /^https?:\/\/[^/]+(.*)$/.exec(vector.url);
  return {
    method: vector.method,
    target: url?.[1] ?? '/webhook/dev/public/t',
    rawHeaders: Object.entries(vector.headers).flatMap(([name, value]) => [name, asReceived(value)]),
    arrivedAtMs: (vector.now ?? 1_700_000_000) * 1000,
    body: Buffer.from(body, 'utf8'),
  };
}

/** The URL of Headgate as known to the sender. */
export function publicUrlOf(vector: Vector): string | null {
  return vector.url === undefined ? null : (/^https?:\/\/[^/]+/.exec(vector.url)?.[0] ?? null);
}
