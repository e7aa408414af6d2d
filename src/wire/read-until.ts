/**
 * Reads from a client in a dialogue. Takes what has arrived before and a function that makes something of all that has arrived,
 * or returns null to ask for more; returns what it made. Rejects with what the function throws, and if the client leaves.
 * Leaves the socket paused, and touches nothing else; the caller bounds the bytes, and the time by destroying the socket.
 */
import type { Socket } from 'node:net';

export function readUntil<T>(
  client: Socket,
  before: Buffer,
  make: (received: Buffer) => T | null,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let received = before;
    const done = (): void => {
      client.pause();
      client.off('data', take);
      client.off('end', left);
      client.off('close', left);
    };
    const left = (): void => {
      done();
      reject(new Error('the client left'));
    };
    const look = (): void => {
      try {
        const made = make(received);
        if (made === null) return;
        done();
        resolve(made);
      } catch (error) {
        done();
        reject(error as Error);
      }
    };
    const take = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      look();
    };
    client.on('data', take);
    client.on('end', left);
    client.on('close', left);
    if (client.isPaused()) client.resume();
    if (received.length > 0) look();
    if (client.destroyed || client.readableEnded) left();
  });
}
