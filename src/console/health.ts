/** What the console shows of the metrics: sums over the text of `/metrics`, which covers all processes. Pure. */
import type { Health } from './api.ts';
import { samplesOf } from '../admin/metrics.ts';
import type { Sample } from '../admin/metrics.ts';

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
