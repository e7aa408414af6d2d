/**
 * What the sockets of a door do in another way than Node's: they are read past their stream, and they are closed so that their sender can read the last
 * answer. Takes sockets; calls back with the bytes that arrive. Touches nothing else.
 */
import { Socket } from 'node:net';
import type { ConnectOpts, SocketConstructorOpts } from 'node:net';
import type { Limits } from '../config/limits.ts';
import type { PerTurn } from '../kit/event-loop.ts';

/**
 * For every read Node allocates a buffer of 64 KiB and cuts it to what arrived: a fifth of the work of a server that answers small requests. A socket
 * that is created with Node's own option `onread` reads into one buffer that its owner provides; sockets that a server accepts cannot be created with
 * it, so they are given afterwards what it would have set. If Node keeps that elsewhere than today (fast-connection.test.ts tells), or a socket is not
 * plain TCP, its stream is read.
 *
 * One for all sockets: what arrives is used, or copied, before the next one reads.
 */
const shared = Buffer.allocUnsafeSlow(65_536);
const sample = () => true;

/** How Node's `net.Socket` holds what `onread` gave it. */
type OwnReads = Socket & Record<symbol, unknown> & { _handle?: { useUserBuffer?(memory: Buffer): void } };

const [memoryAt, useAt] = places();

function places(): (symbol | undefined)[] {
  const options: SocketConstructorOpts & ConnectOpts = { onread: { buffer: shared, callback: sample } };
  const made = new Socket(options) as OwnReads;
  const all = Object.getOwnPropertySymbols(made);
  return [shared, sample].map((given) => all.find((it) => made[it] === given));
}

/**
 * Calls `use` with the bytes that arrive, in memory that is valid during that call only. Returns what ends this: from then on the
 * socket's stream gets the bytes, as if nothing had been read past it. The socket must not have read anything yet.
 */
export function readEach(socket: Socket, use: (bytes: Buffer) => void): () => void {
  const own = socket as OwnReads;
  const { _handle: handle } = own;
  if (memoryAt === undefined || useAt === undefined || isTls(socket) || !handle?.useUserBuffer) {
    socket.on('data', use);
    return () => void socket.off('data', use);
  }
  handle.useUserBuffer(shared);
  own[memoryAt] = shared;
  // Returning false would stop the reading, as a full stream does.
  own[useAt] = (bytes: number) => {
    use(shared.subarray(0, bytes));
    return true;
  };
  // The stream reports the end, but nothing while it is paused.
  socket.resume();
  return () => {
    own[useAt] = (bytes: number) => socket.push(Buffer.from(shared.subarray(0, bytes)));
  };
}

const isTls = (socket: Socket): boolean => 'encrypted' in socket;

/** Node ends this side itself when the sender has ended its own; thousands may do so at the same instant. */
export function endInTurns(socket: Socket, endings: PerTurn): void {
  const end = socket.end.bind(socket) as (...given: Parameters<Socket['end']>) => Socket;
  socket.end = ((...given: Parameters<Socket['end']>) => {
    endings.run(() => void end(...given));
    return socket;
  }) as Socket['end'];
}

/**
 * Sends FIN, and drops what still arrives, until the sender closes or a bound is reached: closing a socket that still has unread bytes makes the kernel
 * send RST, and a sender that is still writing then loses the answer.
 */
export function linger(socket: Socket, { lingerBytesMax, lingerMs }: Limits): void {
  if (socket.destroyed) return;
  socket.end();
  const bytesMax = socket.bytesRead + lingerBytesMax;
  // By the clock: a process that is busy comes late to each look, and a stop waits for the last one.
  const until = performance.now() + lingerMs;
  const look = (): void => {
    if (performance.now() >= until || socket.bytesRead > bytesMax) socket.destroy();
  };
  const timer = setInterval(look, Math.max(10, Math.ceil(lingerMs / 10)));
  socket.once('close', () => clearInterval(timer));
}
