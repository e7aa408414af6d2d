/** Connects the alerts to what they watch. Part of the composition root. */
import { createPost } from '../access/outgoing.ts';
import type { Metrics } from '../admin/metrics.ts';
import type { CatalogDatabases } from '../catalog/databases.ts';
import type { Closer } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { diskSpace } from '../host/disk-space.ts';
import type { WebhookDoor } from './webhook-doors.ts';
import { Alerts } from '../alerts/alerts.ts';
import { keptIn } from '../alerts/state-file.ts';
import { SharedAlerts } from '../alerts/claims.ts';
import type { ObservedConditions } from '../alerts/alerts.ts';
import { silentTables, openGaps, slotsOf } from '../alerts/database-conditions.ts';

export interface AlertParts {
  readonly settings: Settings;
  readonly version: string;
  readonly databases: Pick<CatalogDatabases, 'asked'>;
  readonly signs: ObservedConditions;
  readonly listener: Pick<WebhookDoor, 'listeners'>;
  readonly metrics: Metrics;
  readonly ready: () => string | null;
  readonly observe: Observe;
}

/** Does nothing if no URL is set. */
export function openAlerts(parts: AlertParts, closer: Closer): void {
  const { settings, databases, listener, metrics } = parts;
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
    metrics: () => listener.listeners?.metricsText(metrics) ?? metrics.text(),
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
