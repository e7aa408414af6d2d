/**
 * Stores a body in a transaction of its own: one chunk after the other, while the next one is being read; committed
 * after the last one, rolled back on any failure before. The socket is read only as fast as the engine takes rows.
 * Refuses with `overloaded` when `eventsStreamsMax` are running, or `eventsStreamsOfTokensMax` with tokens, as the body and the transaction refuse, and with
 * `deadline` if the engine needs more than `eventsDeadlineMs` after the last byte.
 */
import type { Target } from '../types/target.ts';
import { freeStore } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { EventBody } from './event-body.ts';
import type { Semaphore } from '../kit/semaphore.ts';
import type { EventAnswer, EventRequest, EventStore } from './event-store.ts';
import { EventTransaction } from './events-transaction.ts';
import type { StreamStages } from './events-transaction.ts';
import { Skipped } from './skipped-lines.ts';

export interface LargeBodies extends StreamStages, Pick<EventStore, 'forget'> {
  /** One for each large body in flight … */
  readonly slots: Semaphore;
  /** … and one more for each with a token of CREATE TOKEN. */
  readonly slotsOfTokens: Semaphore;
}

export async function streamEvents(
  stages: LargeBodies,
  target: Target,
  request: EventRequest,
  body: EventBody,
): Promise<EventAnswer> {
  const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
  const done = takeSlot(stages, request.isOfToken === true);
  const transaction = await EventTransaction.begin(stages, target, skipped).catch((error: unknown) => {
    done();
    throw error;
  });
  try {
    await storeAll(transaction, body, target, skipped);
    await transaction.commit();
    const { rows, stale } = transaction;
    return { rows, skipped, ...(stale > 0 && { stale }) };
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === 'table_changed')
      stages.forget(request.database, request.name);
    throw error;
  } finally {
    await transaction.end();
    done();
  }
}

/** Returns what gives it back; throws Refused. */
function takeSlot({ slots, slotsOfTokens }: LargeBodies, isOfToken: boolean): () => void {
  const one = slots.takeNow();
  if (one === null) throw new Refused('overloaded', 'too many large bodies are being stored');
  if (!isOfToken) return one;
  const another = slotsOfTokens.takeNow();
  if (another !== null)
    return () => {
      one();
      another();
    };
  one();
  throw new Refused('overloaded', 'too many large bodies with tokens are being stored');
}

/** The engine stores one chunk while the next one is read and decoded. */
async function storeAll(
  transaction: EventTransaction,
  body: EventBody,
  target: Target,
  skipped: Skipped | null,
): Promise<void> {
  let storing: Promise<void> = Promise.resolve();
  for await (const rows of body.chunks(target, skipped)) {
    await storing;
    storing = transaction.store(rows).then(() => freeStore(rows.documents.bytes));
    // Awaited in the next round; until then a rejection must not count as unhandled.
    storing.catch(() => {});
  }
  transaction.hurry(limits.eventsDeadlineMs);
  await storing;
}
