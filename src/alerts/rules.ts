/**
 * The alerts, as one table: names and thresholds are those of deploy/prometheus/alerts.yaml for the alerts in it (a test compares
 * them); docs/operating/monitoring.md says of each what to do. Takes what was seen at one moment, returns what is wrong. Pure.
 */
import { limits } from '../config/limits.ts';
import type { Sample } from '../admin/metrics.ts';

export type Labels = Readonly<Record<string, string>>;

export interface AlertFinding {
  readonly labels: Labels;
  readonly says: string;
}

export interface AlertRule {
  readonly name: string;
  readonly severity: 'critical' | 'warning';
  /** How long the condition must hold before it is reported, in ms. */
  readonly holdMs: number;
  /** About the database that its labels name, not about this Headgate: one of the Headgates that see it reports it. */
  readonly shared?: boolean;
  readonly wrong: (view: AlertInput) => readonly AlertFinding[];
}

/** What is seen at one moment. */
export interface AlertInput {
  /** The samples of the metric of this name. */
  readonly of: (name: string) => readonly Sample[];
  /** How much a count has grown in the last `windowMs`; `id` names the count, and always goes with the same window. */
  readonly grown: (id: string, value: number, windowMs: number) => number;
  /** The reason that `/readyz` gives; null: it is ready. */
  readonly notReady: string | null;
  /** For the data directory; null: it cannot be read. */
  readonly disk: { readonly freeBytes: number; readonly totalBytes: number } | null;
  /** Doors whose certificate is not valid, or doubtful, and why. */
  readonly certificates: ReadonlyMap<string, string>;
  /** Failed confirmations of subscriptions, by table, since the start. */
  readonly unconfirmed: readonly { readonly labels: Labels; readonly count: number }[];
  readonly silent: readonly SilentTable[];
  readonly slots: readonly ReplicationSlot[];
  readonly gaps: readonly OpenGap[];
}

/** A table that lacks deliveries that its sender's log announces. */
export interface OpenGap {
  readonly labels: Labels;
  readonly missing: number;
  /** Why the log is not read; null: it is. */
  readonly problem: string | null;
}

/** A logical slot, i.e. a position in the log that somebody follows it from. */
export interface ReplicationSlot {
  /** Database and slot. */
  readonly labels: Labels;
  readonly active: boolean;
  /** The log that its reader still needs was removed. */
  readonly lost: boolean;
  /** How much log it holds, and from how much on an alert is due. */
  readonly heldBytes: number;
  readonly tooManyBytes: number;
  /** How far its reader has confirmed the log, in bytes. */
  readonly read: number;
}

export interface SilentTable {
  readonly labels: Labels;
  /** The length of the silence, and the longest pause of the day before, in minutes. */
  readonly minutes: number;
  readonly usualMinutes: number;
}

const minutes = (count: number): number => count * 60_000;
const sum = (samples: readonly Sample[]): number => samples.reduce((all, { value }) => all + value, 0);
const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
const when = (isSo: boolean, says: string, labels: Labels = {}): readonly AlertFinding[] =>
  isSo ? [{ labels, says }] : [];

export const rules: readonly AlertRule[] = [
  {
    name: 'HeadgateNotReady',
    severity: 'critical',
    holdMs: minutes(1),
    wrong: ({ notReady }) =>
      when(
        notReady !== null,
        `requests are answered 503, or 202 where their table spools: ${notReady ?? ''}`,
      ),
  },
  {
    name: 'HeadgateAnswering503',
    severity: 'warning',
    holdMs: minutes(5),
    wrong: ({ of, grown }) => {
      const all = of('headgate_requests_total');
      const away = all.filter(({ labels }) => labels.get('status') === '503');
      const part = grown('503', sum(away), minutes(5)) / Math.max(1, grown('requests', sum(all), minutes(5)));
      return when(part > 0.05, `${Math.round(part * 100)} % of the requests are answered 503`);
    },
  },
  {
    name: 'HeadgateBug',
    severity: 'warning',
    holdMs: 0,
    wrong: ({ of, grown }) => {
      const bugs = [...of('headgate_request_failures_total'), ...of('headgate_sql_failures_total')];
      return when(
        grown('bugs', sum(bugs), minutes(10)) > 0,
        'a request or a statement met a bug; the log has more',
      );
    },
  },
  {
    name: 'HeadgateCommitUnknown',
    severity: 'warning',
    holdMs: 0,
    wrong: ({ of, grown }) => {
      const unknown = of('headgate_groups_total').filter(({ labels }) => labels.get('result') === 'unknown');
      const count = grown('unknown', sum(unknown), minutes(15));
      return when(count > 3, 'connections to the database are lost while rows are committed');
    },
  },
  {
    name: 'HeadgateLaneFilling',
    severity: 'warning',
    holdMs: minutes(1),
    wrong: ({ of }) =>
      byTable(of('headgate_lane_rows')).flatMap(({ labels, samples }) =>
        when(sum(samples) > 8_192, `${sum(samples)} rows wait: more comes than is committed`, labels),
      ),
  },
  {
    name: 'HeadgateTableUnusable',
    severity: 'critical',
    holdMs: minutes(1),
    shared: true,
    wrong: ({ of }) =>
      of('headgate_tables_unusable').flatMap(({ labels, value }) =>
        when(value > 0, `${value} tables answer 503: a secret does not open, or a column is gone`, {
          database: labels.get('database') ?? '',
        }),
      ),
  },
  {
    name: 'HeadgateSignaturesFail',
    severity: 'warning',
    holdMs: minutes(15),
    shared: true,
    wrong: ({ of, grown }) =>
      byTable(of('headgate_requests_total')).flatMap(({ id, labels, samples }) => {
        const failing = samples.filter((it) => it.labels.get('code') === 'signature_failed');
        const failed = grown(`signatures ${id}`, sum(failing), minutes(15));
        const all = grown(`requests ${id}`, sum(samples), minutes(15));
        return when(
          failed / Math.max(1, all) > 0.5,
          `${failed} of ${all} requests in 15 minutes fail their check`,
          labels,
        );
      }),
  },
  {
    name: 'HeadgateRowsRefused',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ of, grown }) =>
      byTable(of('headgate_requests_total')).flatMap(({ id, labels, samples }) => {
        const refused = samples.filter((it) => it.labels.get('status') === '422');
        const count = grown(`rows ${id}`, sum(refused), minutes(15));
        return when(
          count > 10,
          `${count} bodies in 15 minutes do not fit the table, or its own code fails: engine_error in headgate.rejected_requests`,
          labels,
        );
      }),
  },
  {
    name: 'HeadgateDeliveryDiffers',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ of, grown }) =>
      byTable(of('headgate_deliveries_differing_total')).flatMap(({ id, labels, samples }) => {
        const count = grown(`differing ${id}`, sum(samples), minutes(60));
        return when(
          count > 0,
          `${count} requests of an hour came with the id of another delivery, and are not in the table; headgate.rejected_requests has them`,
          labels,
        );
      }),
  },
  {
    name: 'HeadgateDeliverDead',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ of }) =>
      byTable(of('headgate_deliver_dead_rows')).flatMap(({ labels, samples }) =>
        when(
          sum(samples) > 0,
          `${sum(samples)} rows had all their attempts and were not accepted; last_error has the reason`,
          labels,
        ),
      ),
  },
  {
    name: 'HeadgateDeliverStopped',
    severity: 'warning',
    holdMs: minutes(1),
    shared: true,
    wrong: ({ of }) =>
      byTable(of('headgate_deliver_working')).flatMap(({ labels, samples }) =>
        when(
          samples.some(({ value }) => value === 0),
          'rows are not sent on: the receiver is down or wants no more (410), or the table does not give them; the log says why',
          labels,
        ),
      ),
  },
  {
    name: 'HeadgateEngineRestarts',
    severity: 'warning',
    holdMs: 0,
    wrong: ({ of, grown }) => {
      const count = grown('engine', sum(of('headgate_engine_restarts_total')), minutes(30));
      return when(count > 2, `the database went away ${count} times in half an hour`);
    },
  },
  {
    name: 'HeadgateCatalogUnreadable',
    severity: 'warning',
    holdMs: 0,
    wrong: ({ of, grown }) => {
      const count = grown('catalog', sum(of('headgate_catalog_failures_total')), minutes(15));
      return when(count > 5, 'which webhook tables there are cannot be read');
    },
  },
  {
    name: 'HeadgateSpoolWaits',
    severity: 'warning',
    holdMs: minutes(5),
    wrong: ({ of }) =>
      byTable(of('headgate_spool_oldest_seconds')).flatMap(({ labels, samples }) => {
        const seconds = Math.max(...samples.map(({ value }) => value));
        return when(
          seconds > 1_800,
          `webhooks have been on the disk for ${Math.floor(seconds / 60)} minutes`,
          labels,
        );
      }),
  },
  {
    name: 'HeadgateSpoolFills',
    severity: 'critical',
    holdMs: 0,
    wrong: ({ of }) => {
      const [bytes, bytesMax] = [sum(of('headgate_spool_bytes')), sum(of('headgate_spool_limit_bytes'))];
      return when(bytes > 0.5 * bytesMax, 'the spool is half full: soon senders get 503');
    },
  },
  {
    name: 'HeadgateSpoolTrouble',
    severity: 'critical',
    holdMs: 0,
    wrong: ({ of, grown }) => {
      const damaged = grown('damaged', sum(of('headgate_spool_damaged_total')), minutes(60));
      const failed = grown('failed', sum(of('headgate_spool_failures_total')), minutes(10));
      const aside = sum(of('headgate_spool_quarantined'));
      const isSo = sum(of('headgate_spool_held')) + aside + damaged + failed > 0;
      return when(isSo, 'the spool holds what cannot arrive, or its disk has failed');
    },
  },
  {
    name: 'HeadgateBodiesInFlight',
    severity: 'warning',
    holdMs: minutes(1),
    wrong: ({ of }) =>
      when(
        sum(of('headgate_listener_bytes_in_flight')) > limits.bodiesInFlightBytesMax * 0.75,
        'almost as many bodies are held as may be',
      ),
  },
  {
    name: 'HeadgateDiskFull',
    severity: 'critical',
    holdMs: minutes(1),
    wrong: ({ disk }) => {
      if (disk === null) return [];
      const least = Math.min(limits.alertFreeBytesMin, disk.totalBytes / 10);
      const mib = Math.floor(disk.freeBytes / 2 ** 20);
      return when(disk.freeBytes < least, `the disk of the data directory has ${mib} MiB left`);
    },
  },
  {
    name: 'HeadgateCertificate',
    severity: 'warning',
    holdMs: minutes(1),
    wrong: ({ certificates }) =>
      [...certificates].map(([door, state]) => ({
        labels: { door },
        says: `the certificate of the door ${door}: ${state}`,
      })),
  },
  {
    name: 'HeadgateHandshakeMissed',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ of, grown, unconfirmed }) => [
      ...byTable(of('headgate_handshakes_total')).flatMap(({ id, labels, samples }) => {
        const answered = samples.filter((it) => it.labels.get('outcome') === 'answered');
        const missed = sum(samples) - sum(answered);
        const grew = grown(`missed ${id}`, missed, minutes(15)) > 0;
        const good = grown(`answered ${id}`, sum(answered), minutes(15)) > 0;
        return when(
          grew && !good,
          "a sender's question was not answered; headgate.handshakes has it",
          labels,
        );
      }),
      ...unconfirmed.flatMap(({ labels, count }) =>
        when(
          grown(`unconfirmed ${JSON.stringify(labels)}`, count, minutes(15)) > 0,
          'a subscription could not be confirmed; the log says why',
          labels,
        ),
      ),
    ],
  },
  {
    name: 'HeadgateTableSilent',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ silent, notReady }) =>
      notReady !== null
        ? []
        : silent.map(({ labels, minutes: past, usualMinutes }) => ({
            labels,
            says: `nothing came for ${past} minutes; the longest pause of a day was ${usualMinutes}`,
          })),
  },
  {
    name: 'HeadgateDeliveriesMissing',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ gaps }) =>
      gaps.map(({ labels, missing, problem }) => ({
        labels,
        says:
          missing > 0
            ? `${missing} deliveries that the sender's log announces have not come; headgate.gaps has them`
            : `the log of the sender is not read: ${problem ?? ''}`,
      })),
  },
  {
    name: 'HeadgateSlotBehind',
    severity: 'critical',
    holdMs: minutes(1),
    shared: true,
    wrong: ({ slots }) =>
      slots.flatMap(({ labels, lost, heldBytes, tooManyBytes }) =>
        lost
          ? [{ labels, says: 'the log that its reader needs is gone: the reader has to copy anew' }]
          : when(heldBytes > tooManyBytes, `${mebibytes(heldBytes)} of the log wait for its reader`, labels),
      ),
  },
  {
    name: 'HeadgateSlotUnread',
    severity: 'warning',
    holdMs: 0,
    shared: true,
    wrong: ({ slots, grown }) =>
      slots.flatMap(({ labels, active, lost, heldBytes, read }) => {
        const isRead = grown(`slot ${JSON.stringify(labels)}`, read, minutes(15)) > 0;
        return when(
          !active && !lost && !isRead,
          `nobody has followed it for 15 minutes; it holds ${mebibytes(heldBytes)} of the log`,
          labels,
        );
      }),
  },
];

/** Groups samples by table; those without a table are left out. */
function byTable(
  samples: readonly Sample[],
): readonly { readonly id: string; readonly labels: Labels; readonly samples: readonly Sample[] }[] {
  const tables = new Map<string, { id: string; labels: Labels; samples: Sample[] }>();
  for (const sample of samples) {
    const [database = '', schema = '', table = ''] = ['database', 'schema', 'table'].map((it) =>
      sample.labels.get(it),
    );
    if (table === '') continue;
    const id = JSON.stringify([database, schema, table]);
    const known = tables.get(id);
    if (known === undefined) tables.set(id, { id, labels: { database, schema, table }, samples: [sample] });
    else known.samples.push(sample);
  }
  return [...tables.values()];
}
