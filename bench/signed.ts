/** The signed event that most benchmarks send, as GitHub would, and the table that receives it. */
import { createHmac } from 'node:crypto';
import type { Client } from 'pg';

export const secret = 'It is a secret to everybody';

export const body = JSON.stringify({
  action: 'opened',
  number: 4711,
  repository: { id: 1296269, full_name: 'octocat/Hello-World', private: false },
  sender: { login: 'octocat', id: 583231 },
  text: 'x'.repeat(40),
});

export function signedHeaders(text: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(text).digest('hex')}`,
  };
}

export const check =
  "VALIDATE SECRET s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))";

/** A webhook table of one JSONB column that accepts the signed event. */
export async function createSigned(client: Client, ...names: string[]): Promise<void> {
  await client.query(`CREATE SECRET IF NOT EXISTS s WITH (backend = 'meta') AS '${secret}'`);
  for (const name of names)
    await client.query(`CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook') ${check}`);
}
