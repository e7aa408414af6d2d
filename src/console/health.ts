/**
 * What the console's health page shows: sums over the text of `/metrics`, which covers all processes, and of the machine the disk of the data directory,
 * the spool on it, the certificates of the doors. Takes that text, and Settings; returns what it finds when asked, and null for what cannot be read.
 * Measures a flush at most once a minute, and only while somebody views the page.
 */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { stateAt, validityOf } from '../access/tls-source.ts';
import { samplesOf } from '../admin/metrics.ts';
import type { Sample } from '../admin/metrics.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { diskSpace, flushTime } from '../host/disk-space.ts';
import { tlsFiles } from '../host/door-settings.ts';
import type { SpoolDetail } from '../spool/spool-state.ts';
import type { CertificateInfo, Health, Machine } from './api.ts';

export function healthOf(
  text: string,
): Pick<Health, 'uptimeS' | 'memoryBytes' | 'requests' | 'rows' | 'p50' | 'p99' | 'waitingRows'> {
  const samples = samplesOf(text);
  const sum = (name: string) => samples.reduce((all, it) => (it.name === name ? all + it.value : all), 0);
  const started = Math.min(
    ...samples.flatMap((it) => (it.name === 'process_start_time_seconds' ? [it.value] : [])),
  );
  return {
    uptimeS: Number.isFinite(started) ? Math.max(0, Math.round(Date.now() / 1_000 - started)) : 0,
    memoryBytes: sum('process_resident_memory_bytes'),
    requests: requestsOf(samples),
    rows: sum('headgate_rows_total'),
    waitingRows: sum('headgate_lane_rows'),
    ...quantiles(samples.filter(({ name }) => name === 'headgate_request_seconds_bucket')),
  };
}

function requestsOf(samples: readonly Sample[]): Health['requests'] {
  const counts = new Map<string, { code: string; status: string; count: number }>();
  for (const { name, labels, value } of samples) {
    if (name !== 'headgate_requests_total') continue;
    const [code, status] = [labels.get('code') ?? '', labels.get('status') ?? ''];
    const known = counts.get(`${status} ${code}`) ?? { code, status, count: 0 };
    known.count += value;
    counts.set(`${status} ${code}`, known);
  }
  return [...counts.values()].toSorted((a, b) => b.count - a.count);
}

/** Upper bounds of the histogram buckets that contain the median and the 99th percentile. */
function quantiles(buckets: readonly Sample[]): { p50: number | null; p99: number | null } {
  const counts = new Map<number, number>();
  for (const { labels, value } of buckets) {
    const bound = labels.get('le') === '+Inf' ? Infinity : Number(labels.get('le'));
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  const all = counts.get(Infinity) ?? 0;
  const bounds = [...counts.keys()].toSorted((a, b) => a - b);
  const of = (part: number): number | null => {
    const bound = bounds.find((it) => (counts.get(it) ?? 0) >= all * part);
    return all === 0 || bound === undefined || bound === Infinity ? null : bound;
  };
  return { p50: of(0.5), p99: of(0.99) };
}

export function createMachine(
  settings: Settings,
  embedded: boolean,
  spool: () => SpoolDetail | null,
): () => Promise<Machine> {
  const { dataDir: folder } = settings;
  const clock = (): number => performance.now();
  let flush: { readonly ms: Promise<number | null>; readonly atMs: number } | null = null;
  return async () => {
    if (flush === null || clock() - flush.atMs > limits.consoleFlushMs)
      flush = { ms: flushTime(folder, clock).catch(() => null), atMs: clock() };
    const space = await diskSpace(folder).catch(() => null);
    const flushMs = await flush.ms;
    return {
      node: process.versions.node,
      disk:
        space === null
          ? null
          : {
              ...space,
              folder,
              embedded,
              flushMs,
              low: space.freeBytes < limits.doctorFreeBytesMin,
              slow: flushMs !== null && flushMs > limits.doctorSlowFlushMs,
            },
      spool: spool(),
      certificates: (await Promise.all(doors.map((door) => certificateOf(settings, door)))).flat(),
    };
  };
}

const doors = ['listen', 'sql', 'gateway'] as const;

async function certificateOf(settings: Settings, door: (typeof doors)[number]): Promise<CertificateInfo[]> {
  const files = tlsFiles(settings, door);
  if (files === null) return [];
  try {
    const pem = await readFile(files.cert);
    const { subject, subjectAltName } = new X509Certificate(pem);
    const validity = validityOf(pem);
    const names = (subjectAltName ?? subject).replaceAll('\n', ', ').slice(0, limits.consoleNamesCharsMax);
    return [{ door, names, untilMs: validity.untilMs, state: stateAt(validity, Date.now()) }];
  } catch {
    return [{ door, names: '', untilMs: 0, state: 'unreadable' }];
  }
}
