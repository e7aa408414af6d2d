/** Clients of `headgate mcp`: the protocol's own, in both of its eras. */
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { onEnd } from './cleanup.ts';
import type { Headgate } from './headgate.ts';

export const eras = ['legacy', { pin: '2026-07-28' }] as const;

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

export const dsnOf = ({ ports }: Headgate, role: string) =>
  `postgresql://${role}@127.0.0.1:${ports.sql.port}/dev`;

export async function connected(
  t: TestContext,
  headgate: Headgate,
  role: string,
  mode: (typeof eras)[number] = 'legacy',
  ...more: string[]
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const args = [
    cli,
    'mcp',
    '--dsn',
    dsnOf(headgate, role),
    '--url',
    `http://127.0.0.1:${headgate.ports.listen.port}`,
  ];
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [...args, ...more], stderr: 'ignore' }),
  );
  onEnd(t, 'client', () => client.close());
  return client;
}

export interface Called {
  readonly rows: Record<string, unknown>[];
  readonly text: string;
  readonly isError: boolean;
}

export async function call(
  client: Client,
  name: string,
  given: Record<string, unknown> = {},
): Promise<Called> {
  const result = await client.callTool({ name, arguments: given });
  const [content] = result.content as { text?: string }[];
  const { rows = [] } = (result.structuredContent ?? {}) as { rows?: Record<string, unknown>[] };
  return { rows, text: content?.text ?? '', isError: result.isError === true };
}
