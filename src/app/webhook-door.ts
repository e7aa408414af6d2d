/**
 * Connects the webhook listener to the stages that a request or a batch passes through, and provides the same stages
 * for a refused request that its owner retries. Part of the composition root.
 */
import { doorAt } from '../host/ports.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Settings } from '../config/settings.ts';
import type { DoorGuards } from './door-guards.ts';
import { SenderHandshakes } from '../ingest/handshake.ts';
import { Ingest } from '../ingest/ingest.ts';
import type { Stages } from '../ingest/ingest.ts';
import { RequestStreams } from '../ingest/ingest-stream.ts';
import type { Learning } from '../ingest/learning.ts';
import { Retry } from '../ingest/retry.ts';
import type { Sns } from '../ingest/sns.ts';
import type { StreamFence } from '../ingest/stream-fence.ts';
import type { Disk } from '../ingest/spooling.ts';
import type { Closable } from '../kit/closer.ts';
import type { ListenerOptions } from '../listen/http.ts';
import type { StageContext } from '../observe/context.ts';
import type { ConflictingDeliveries } from '../reject/conflicting-deliveries.ts';
import type { Rejects } from '../reject/rejected-requests.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { RetryRejected } from '../types/journal.ts';

interface WebhookDoorParts extends StageContext {
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly lanes: Lanes;
  /** null: no requests are kept here. */
  readonly disk: Disk | null;
  readonly guards: DoorGuards;
  readonly learning: Learning;
  /** null: Headgate calls nobody over the network. */
  readonly sns: Sns | null;
  readonly rejects: Rejects;
  readonly apart: ConflictingDeliveries;
  readonly hold: Stages['hold'];
  /** null: nothing is traced. */
  readonly tracer: Tracer | null;
  /** null: no other process accepts streams. */
  readonly fence: StreamFence | null;
}

export interface Webhooks<Door extends Closable> {
  readonly listener: Door;
  readonly retry: RetryRejected;
}

/** `openDoor` decides how connections reach it. */
export async function openWebhooks<Door extends Closable>(
  parts: WebhookDoorParts,
  openDoor: (options: ListenerOptions) => Promise<Door>,
): Promise<Webhooks<Door>> {
  const { settings, guards, limits, observe, tracer } = parts;
  const stages = { ...parts, gate: guards.gate };
  const handshakes = new SenderHandshakes(parts);
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
    tracer,
    ingest: new Ingest({ ...stages, handshakes }),
    handshakes,
    streams: new RequestStreams(stages),
  });
  const retry = new Retry(stages);
  return { listener, retry: (request) => retry.store(request) };
}
