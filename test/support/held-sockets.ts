/** Sockets of a client that only holds them: each sends its first bytes, waits, and is reopened when it is closed. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';

export interface HeldSockets {
  /** What was read on closed sockets, each text once: what the server sent at the end. */
  readonly lastWords: ReadonlySet<string>;
  /** How often a closed socket was reopened. */
  readonly renewed: number;
  close(): void;
}

/** Resolves once all of them have sent their bytes once. */
export async function holdSockets(
  port: number,
  count: number,
  addresses: readonly string[],
  talk: (socket: Socket) => void,
): Promise<HeldSockets> {
  const open = new Set<Socket>();
  const lastWords = new Set<string>();
  const state = { closing: false, renewed: 0 };
  const hold = (localAddress: string): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress });
      let heard = '';
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('data', (chunk: Buffer) => (heard += chunk.toString('latin1')));
      socket.on('connect', () => {
        talk(socket);
        resolve();
      });
      socket.on('close', () => {
        open.delete(socket);
        lastWords.add(heard);
        resolve();
        if (state.closing) return;
        state.renewed += 1;
        void hold(localAddress);
      });
    });
  await Promise.all(Array.from({ length: count }, (_, i) => hold(addresses[i % addresses.length] ?? '')));
  return {
    lastWords,
    get renewed() {
      return state.renewed;
    },
    close() {
      state.closing = true;
      for (const socket of open) socket.destroy();
    },
  };
}
