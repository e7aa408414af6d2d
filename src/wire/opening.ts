/**
 * Reads how a client opens its connection: answers its questions about encryption, and gives the packet that says
 * what it wants. Bounded in bytes; the caller bounds the time by destroying the socket.
 */
import type { Socket } from 'node:net';
import { ProtocolViolation, unread } from './framing.ts';
import { type Opening, openingLength, readOpening } from './messages.ts';

export interface Opened {
  readonly opening: Exclude<Opening, { readonly kind: 'encryption' }>;
  /** The packet as it came. */
  readonly packet: Buffer;
  /** What the client has sent behind it. */
  readonly rest: Buffer;
}

/** GSSAPI may be asked for, then TLS; then a client has to come to the point. */
const encryptionRequestsMax = 2;

/** Rejects when the client leaves or does not speak the protocol. Leaves the socket paused. */
export function readClientOpening(client: Socket, bytesMax: number): Promise<Opened> {
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    let encryptionRequests = 0;
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
    const take = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      for (;;) {
        const length = openingLength(received, bytesMax);
        if (length === unread || (length !== null && received.length < length)) return;
        const opening = length === null ? null : readOpening(received.subarray(0, length));
        const tooMany = opening?.kind === 'encryption' && encryptionRequests === encryptionRequestsMax;
        if (length === null || opening === null || tooMany) {
          done();
          reject(new ProtocolViolation('this is no PostgreSQL client'));
          return;
        }
        const packet = received.subarray(0, length);
        received = received.subarray(length);
        if (opening.kind !== 'encryption') {
          done();
          resolve({ opening, packet, rest: received });
          return;
        }
        encryptionRequests += 1;
        // TLS will begin here: an `S`, nothing of `received` kept, and the opening read on from a TLSSocket.
        client.write('N');
      }
    };
    client.on('data', take);
    client.on('end', left);
    client.on('close', left);
  });
}
