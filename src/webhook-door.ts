/**
 * The webhook listener joined with the stages that a request and a batch go through, and the same stages for a refused
 * request that its owner tries again. Part of the composition root.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Expected, Lanes } from './batch/lanes.ts';
import type { Catalog } from './catalog/catalog.ts';
import { itemsInSlices } from './decode/batches.ts';
import { decodeInSlices } from './decode/decode.ts';
import type { DoorGuards } from './door-guards.ts';
import type { DecodeRequest, RejectedRequest, RetryRejected, Rows, Target } from './flow.ts';
import { createStreams } from './ingest-stream.ts';
import { createIngest } from './ingest.ts';
import { Turns } from './kit/turns.ts';
import { limits } from './limits.ts';
import { openListener } from './listen/http.ts';
import type { Listener } from './listen/http.ts';
import { parseIngestTarget, parseWebhookTarget } from './listen/routes.ts';
import type { Observe, TableName } from './observations.ts';
import { Refused } from './refusals.ts';
import type { Refusal } from './refusals.ts';
import { createRetry } from './retry.ts';
import type { Settings } from './settings.ts';

/** Stands where the webhook listener is switched off: it takes nothing, so there is nothing to answer or to close. */
async function noListener(): Promise<Omit<Listener, 'address'> & { address: null }> {
  const load = { connections: 0, bytesInFlight: 0 };
  return { address: null, load, drain: () => {}, close: async () => {} };
}

interface WebhookRooms {
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly lanes: Lanes;
  readonly guards: DoorGuards;
  readonly rejected: (request: RejectedRequest) => void;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export interface Webhooks {
  readonly listener: Awaited<ReturnType<typeof openListener | typeof noListener>>;
  readonly retry: RetryRejected;
}

export async function openWebhooks(rooms: WebhookRooms): Promise<Webhooks> {
  const { settings, catalog, lanes, guards, rejected, observe, clock } = rooms;
  const stages = {
    find: (name: TableName) => catalog.find(name),
    submit: (rows: Rows) => lanes.submit(rows),
    refresh: (database: string) => catalog.refresh(database),
  };
  const turns = new Turns(setImmediate);
  const decode = (target: Target, request: DecodeRequest) =>
    turns.run(request.body.length, decodeInSlices(target, request));
  const listener = await (settings.listenEnabled ? openListener : noListener)({
    host: settings.listenHost,
    port: settings.listenPort,
    bodyBytesMax: settings.bodyBytesMax,
    websocketOrigins: settings.websocketOrigins,
    observe,
    now: Date.now,
    tls: guards.listenTls,
    gate: guards.gate,
    ingest: createIngest({
      ...stages,
      admit: (target, bytes) => admit(target, { bytes, inOrder: false }, guards, lanes),
      rejected,
      route: (target) => orRefuse(parseWebhookTarget(target)),
      decode,
    }),
    openStream: createStreams({
      ...stages,
      admit: (target, bytes) => admit(target, { bytes, inOrder: true }, guards, lanes),
      rejected,
      route: (target) => orRefuse(parseIngestTarget(target)),
      decode: (target, items) => turns.run(items.documents.bytes.length, itemsInSlices(target, items)),
      pause: delay,
      clock,
      random: Math.random,
      limits,
    }),
  });
  return {
    listener,
    retry: createRetry({
      ...stages,
      admit: (target, bytes) => admit(target, { bytes, inOrder: false }, guards, lanes),
      decode,
    }),
  };
}

function admit(target: Target, expected: Expected, { gate }: DoorGuards, lanes: Lanes): void {
  const tooMany = gate.refusesTable(target);
  if (tooMany !== null) throw new Refused(tooMany);
  lanes.admit(target, limits.ackDeadlineMs, expected);
}

function orRefuse<T extends object>(made: T | Refusal): T {
  if ('code' in made) throw new Refused(made.code, made.message);
  return made;
}
