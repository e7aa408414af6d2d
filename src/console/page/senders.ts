/** The senders that Headgate knows, and what people call them. */
import type { SenderInfo } from '../api.ts';
import { useLoaded } from './load.ts';
import { call } from './server.ts';

export function useSenders(): {
  readonly all: readonly SenderInfo[];
  readonly nameOf: (id: string) => string;
} {
  const all = useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options)).value ?? [];
  return { all, nameOf: (id) => all.find((it) => it.id === id)?.name ?? id };
}
