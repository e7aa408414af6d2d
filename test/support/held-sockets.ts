/** Sockets of somebody who only holds them: each says its first words, waits, and is opened anew when it is closed. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';

export interface HeldSockets {
  /** What was read on those that were closed, each once: what the server had to say at their end. */
  readonly lastWords: ReadonlySet<string>;
  /** How often one was opened in the place of one that was closed. */
  readonly renewed: number;
  close(): void;
}

/** Resolves when all of them have said their words once. */
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
