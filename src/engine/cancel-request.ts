/**
 * Sends a CancelRequest as libpq does: the connection stays open until the server has ended it. PgBouncer 1.18 exits, with the connections of all
 * of its clients, if a client that asks for a cancellation leaves before the server has it (its issue 801).
 */
import type { Socket } from 'node:net';

/** The socket may connect still. It belongs to the caller until its `close`. */
export function sendCancelRequest(socket: Socket, packet: Buffer): void {
  socket.on('error', () => {});
  // A socket may be open for writing until both sides have ended.
  socket.once('end', () => socket.end());
  socket.resume();
  socket.write(packet);
}
