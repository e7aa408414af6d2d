/**
 * Connects the webhook listener to the stages that a request or a batch passes through, and provides the same stages
 * for a refused request that its owner retries. Part of the composition root.
 */
import { doorAt } from '../host/ports.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { itemsInSlices } from '../decode/batches.ts';
import { decode } from '../decode/decode.ts';
import type { DoorGuards } from './door-guards.ts';
import type { AskedHandshake, RejectedRequest, RetryRejected } from '../types/journal.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Sns } from '../ingest/sns.ts';
import type { Learn } from '../ingest/learning.ts';
import { createStreams } from '../ingest/ingest-stream.ts';
import type { StreamFence } from '../ingest/stream-fence.ts';
import { createHandshakes } from '../ingest/handshake.ts';
import { createIngest } from '../ingest/ingest.ts';
import type { IngestDeps } from '../ingest/ingest.ts';
import { longWork } from '../kit/time-slices.ts';
import { remembered } from '../kit/memoize.ts';
import type { Closable } from '../kit/closer.ts';
import type { Limits } from '../config/limits.ts';
import type { ListenerOptions } from '../listen/http.ts';
import { parseIngestTarget, parseWebhookTarget } from '../ingest/routes.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { createRetry } from '../ingest/retry.ts';
import type { Settings } from '../config/settings.ts';
import type { Detour } from './spool-detour.ts';

interface Stages {
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly lanes: Lanes;
  readonly detour: Detour;
  readonly guards: DoorGuards;
  readonly limits: Limits;
  readonly learn: Learn;
  /** null: Headgate calls nobody over the network. */
  readonly sns: Sns | null;
  readonly rejected: (request: RejectedRequest) => void;
  readonly keepApart: NonNullable<IngestDeps['keepApart']>;
  readonly hold: NonNullable<IngestDeps['hold']>;
  readonly asked: (handshake: AskedHandshake) => void;
  /** null: no other process accepts streams. */
  readonly fence: StreamFence | null;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export interface Webhooks<Door extends Closable> {
  readonly listener: Door;
  readonly retry: RetryRejected;
}

/** `openDoor` decides how connections reach it. */
export async function openWebhooks<Door extends Closable>(
  deps: Stages,
  openDoor: (options: ListenerOptions) => Promise<Door>,
): Promise<Webhooks<Door>> {
  const { settings, catalog, lanes, detour, guards, limits, rejected, observe, clock } = deps;
  const stages = {
    find: (name: TableName) => catalog.find(name),
    isStill: (target: Target, sinceMs: number) => catalog.isStill(target, sinceMs),
    clock,
    submit: (rows: Rows) => lanes.submit(rows),
    refresh: (table: Pick<Target, 'database' | 'oid'>) => catalog.refresh(table),
  };
  const refuseTooMany = (target: Target) => {
    const tooMany = guards.gate.refusesTable(target);
    if (tooMany !== null) throw new Refused(tooMany);
  };
  const toLane = (inOrder: boolean) => (target: Target, bytes: number) =>
    lanes.admit(target, { bytes, inOrder });
  const admitting = (inOrder: boolean) => (target: Target, bytes: number) => {
    refuseTooMany(target);
    detour.refuseOvertaking(target);
    toLane(inOrder)(target, bytes);
  };
  const route = remembered((target) => orRefuse(parseWebhookTarget(target)), limits.targetsKnownMax);
  const handshakes = handshakesOf(deps, route);
  const listener = await openDoor({
    ...doorAt(settings, 'listen'),
    bodyBytesMax: settings.bodyBytesMax,
    fastPath: settings.fastPath,
    websocketOrigins: settings.websocketOrigins,
    limits,
    observe,
    now: Date.now,
    tls: guards.listenTls,
    gate: guards.gate,
    ingest: createIngest({
      ...stages,
      ...detour,
      admit: (target, bytes) => {
        refuseTooMany(target);
        detour.admit(target, bytes);
      },
      rejected,
      keepApart: deps.keepApart,
      hold: deps.hold,
      handshakes,
      ...(deps.sns === null ? {} : { sns: deps.sns }),
      route,
      decode,
    }),
    handshakes,
    openStream: createStreams({
      ...stages,
      admit: admitting(true),
      rejected,
      route: (target) => orRefuse(parseIngestTarget(target)),
      decode: (target, items) => longWork.slices(items.documents.bytes.length, itemsInSlices(target, items)),
      pause: delay,
      random: Math.random,
      limits,
      ...(deps.fence === null ? {} : { fence: deps.fence }),
    }),
  });
  return { listener, retry: createRetry({ ...stages, admit: admitting(false), decode }) };
}

function orRefuse<T extends object>(made: T | Refusal): T {
  if ('code' in made) throw new Refused(made.code, made.message);
  return made;
}

function handshakesOf(
  { catalog, learn, asked, observe, clock, limits }: Stages,
  route: (target: string) => TableName,
) {
  return createHandshakes({
    route,
    find: (name) => catalog.find(name),
    lastKnown: (name) => catalog.lastKnown(name),
    isStill: (target, sinceMs) => catalog.isStill(target, sinceMs),
    asked: (handshake) => {
      observe({ kind: 'handshake.asked', table: handshake.target, outcome: handshake.outcome });
      asked(handshake);
    },
    learn,
    clock,
    limits,
  });
}
