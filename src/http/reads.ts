/**
 * What a socket reads, past its stream. Node makes a buffer of 64 KiB for every read, and cuts it to what came: a fifth of what a
 * server does that answers small requests. A socket that was made with Node's own option `onread` reads into one buffer that its owner
 * gives; those that a server accepts cannot be made with it, so they are given afterwards what it would have given them. Where
 * Node keeps it elsewhere than today (reads.test.ts tells), or a socket is not of TCP alone, its stream is read.
 */
import { Socket } from 'node:net';
import type { ConnectOpts, SocketConstructorOpts } from 'node:net';

/** One for all sockets: what came is used, or copied, before the next one reads. */
const shared = Buffer.allocUnsafeSlow(65_536);
const sample = () => true;

/** As Node's `net.Socket` holds what `onread` gave it. */
type OwnReads = Socket & Record<symbol, unknown> & { _handle?: { useUserBuffer?(memory: Buffer): void } };

const [memoryAt, useAt] = places();

function places(): (symbol | undefined)[] {
  const options: SocketConstructorOpts & ConnectOpts = { onread: { buffer: shared, callback: sample } };
  const made = new Socket(options) as OwnReads;
  const all = Object.getOwnPropertySymbols(made);
  return [shared, sample].map((given) => all.find((it) => made[it] === given));
}

/**
 * Calls back with what comes, in memory that is good for that call alone. Gives what ends this: from then on its stream has what
 * comes, as if nobody had read past it. The socket must not have read anything yet.
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
  // Returning false stops the reading, as it does of a stream that is full.
  own[useAt] = (bytes: number) => {
    use(shared.subarray(0, bytes));
    return true;
  };
  // The end is told by the stream, which tells nothing while it stands.
  socket.resume();
  return () => {
    own[useAt] = (bytes: number) => socket.push(Buffer.from(shared.subarray(0, bytes)));
  };
}

const isTls = (socket: Socket): boolean => 'encrypted' in socket;
