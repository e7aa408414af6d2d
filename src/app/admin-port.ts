/**
 * Connects the admin port to its sources and puts the console on it; also connects the alerts, which report the same facts unasked, to what they watch. Part
 * of the composition root.
 */
import { openAdmin } from '../admin/admin.ts';
import type { Admin } from '../admin/admin.ts';
import type { SpoolDetail } from '../spool/spool-state.ts';
import type { Metrics } from '../admin/metrics.ts';
import type { Console } from '../console/console.ts';
import type { Engine } from '../engine/engine.ts';
import type { Closer } from '../kit/closer.ts';
import type { HeldQuestion, HeldRequest, TailSource } from '../observe/tail.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { openMetricSender } from './telemetry.ts';
import type { ObservedConditions } from '../alerts/alerts.ts';
import { openConsoleOf } from './console.ts';
import type { ConsoleParts } from './console.ts';
import { createMachine, healthOf } from '../console/health.ts';
import { doorAt } from '../host/ports.ts';
import type { WebhookDoor } from './webhook-doors.ts';
import { createPost } from '../access/outgoing.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { limits } from '../config/limits.ts';
import { monotonicMs } from '../observe/context.ts';
import { diskSpace } from '../host/disk-space.ts';
import { Alerts } from '../alerts/alerts.ts';
import { keptIn } from '../alerts/state-file.ts';
import { SharedAlerts } from '../alerts/claims.ts';
import { silentTables, openGaps, slotsOf } from '../alerts/database-conditions.ts';

interface AdminParts {
  readonly settings: Settings;
  readonly version: string;
  readonly engine: Engine;
  readonly listener: WebhookDoor;
  readonly sql: { readonly host: string; readonly port: number };
  readonly gateway: { readonly host: string; readonly port: number };
  readonly metrics: Metrics;
  readonly databases: ConsoleParts['databases'] & Pick<Catalog, 'asked'>;
  readonly signs: ObservedConditions;
  /** Of this process only. */
  readonly tail: TailSource;
  readonly held: (of: HeldQuestion) => Promise<HeldRequest | null>;
  readonly ready: () => string | null;
  readonly spool: () => SpoolDetail | null;
  readonly certificate: () => object | null;
  readonly observe: Observe;
}

interface AdminPort {
  readonly admin: Admin;
  /** null: the console is off. */
  readonly console: Console | null;
}

export async function openAdminPort(parts: AdminParts, closer: Closer): Promise<AdminPort> {
  const { settings, engine, listener, metrics, ready, version, sql, gateway } = parts;
  const { listeners, address: listen } = listener;
  const text = () => listeners?.metricsText(metrics) ?? metrics.text();
  const opened = await openConsoleOf(
    {
      settings,
      version,
      engineKind: engine.kind,
      database: engine.defaultDatabase,
      role: String(engine.clientConfig(engine.defaultDatabase).user),
      listen,
      sql,
      gateway,
      observe: parts.observe,
      databases: parts.databases,
      tail: listeners?.tail ?? parts.tail,
      ready,
      held: (of) => listeners?.held(of) ?? parts.held(of),
      machine: createMachine(settings, engine.kind === 'embedded', parts.spool),
      health: async () => ({
        ...healthOf(await text()),
        notReady: ready(),
        engine: `${engine.kind === 'embedded' ? 'embedded ' : ''}PostgreSQL ${Math.floor(engine.serverVersion / 10_000)}`,
        version,
        listeners: listeners?.states ?? [],
      }),
    },
    closer,
  );
  const admin = await openAdmin({
    ...doorAt(settings, 'admin'),
    health: () => ({ engine: engine.kind }),
    ready,
    spool: parts.spool,
    certificate: parts.certificate,
    metrics: { contentType: metrics.contentType, text },
    handler: opened === null ? null : (request, response) => opened.handle(request, response),
  });
  closer.add('admin port', () => admin.close());
  openAlerts(parts, text, closer);
  openMetricSender(parts, closer);
  return { admin, console: opened };
}

/** Does nothing if no URL is set. */
function openAlerts(parts: AdminParts, text: () => Promise<string>, closer: Closer): void {
  const { settings, databases } = parts;
  const { alertUrl, alertForm: form, alertSeconds, dataDir } = settings;
  if (alertUrl === null) return;
  const clock = monotonicMs;
  const beganMs = clock();
  const { version, signs, ready, observe } = parts;
  const alerts = new Alerts({
    version,
    signs,
    ready,
    observe,
    url: new URL(alertUrl),
    form,
    everyMs: alertSeconds * 1_000,
    post: createPost(limits),
    file: keptIn(dataDir),
    metrics: text,
    disk: () => diskSpace(dataDir),
    // While it was not listening nothing could arrive.
    silent: (database, isKnown) => silentTables(databases, database, (clock() - beganMs) / 60_000, isKnown),
    slots: (database) => slotsOf(databases, database),
    gaps: (database) => openGaps(databases, database),
    sharing: new SharedAlerts(databases),
    nowMs: Date.now,
    clock,
  }).start();
  closer.add('alerts', () => alerts.close());
}
