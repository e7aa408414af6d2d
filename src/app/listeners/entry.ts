/**
 * A listener process, as the main process starts it: connects the channel to the main process to the service. Reads
 * nothing but that channel. It exits after it was asked to drain, when it cannot start, and at once when the channel
 * closes: then the main process is gone, and nothing that holds its engine or its port may remain. Signals are left to
 * the main process: Ctrl-C and service managers send them to all processes at once.
 */
import type { Socket } from 'node:net';
import { PlainError } from '../../kit/plain-error.ts';
import type { Assignment, FromListener, ToListener } from './messages.ts';
import { serveListener } from './service.ts';
import type { ListenerService } from './service.ts';

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('disconnect', () => process.exit(1));

let service: ListenerService | null = null;

process.on('message', (message: ToListener, connection: Socket | undefined) => {
  switch (message.kind) {
    case 'begin':
      void begin(message.assignment);
      break;
    case 'connection':
      service?.take(connection);
      break;
    case 'ask':
      void answer(message);
      break;
    case 'passed':
      service?.charge(message.passed);
      break;
    case 'fenced':
      service?.fenced(message.id, message.settled);
      break;
    case 'spool':
      service?.spool(message.told);
      break;
  }
});

function send(message: FromListener, written?: () => void): void {
  // After a failed write the channel closes, and with it this process.
  process.send?.(message, undefined, undefined, () => written?.());
}

async function begin(assignment: Assignment): Promise<void> {
  try {
    service = await serveListener(assignment, send);
    send({ kind: 'serving' });
  } catch (error) {
    const message = explained(error);
    // An error without a message for people is a bug of ours, and shows its stack like any other.
    if (message === null) throw error;
    send({ kind: 'failed', message }, () => process.exit(1));
  }
}

/** A message meant for the terminal; null: there is none. */
function explained(error: unknown): string | null {
  if (error instanceof PlainError) return error.message;
  return (error as NodeJS.ErrnoException).syscall === undefined ? null : (error as Error).message;
}

async function answer({ id, question }: ToListener & { kind: 'ask' }): Promise<void> {
  const given = (await service?.answer(question, () => send({ kind: 'getsOn', id }))) ?? {};
  send({ kind: 'answer', id, answer: given }, () => {
    if (question.what === 'drain') process.exit(0);
  });
}
