/** The listener processes of a running Headgate, found by means that no client has. Linux only. */
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { asked } from './asked.ts';
import type { Headgate } from './headgate.ts';

export interface ListenerProcess {
  readonly pid: number;
  readonly cmdline: string;
  readonly environ: string;
}

/** Those whose parent is `pid`. */
export function listenerProcesses(pid: number): readonly ListenerProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const read = (file: string) => readFileSync(`/proc/${name}/${file}`, 'latin1');
      try {
        const stat = read('stat');
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        const cmdline = read('cmdline');
        if (parent !== pid || !cmdline.includes('/listeners/entry.')) return [];
        return [{ pid: Number(name), cmdline, environ: read('environ') }];
      } catch {
        // It ended while the list was read.
        return [];
      }
    });
}

/** Samples of /metrics by name and labels, unchanged. */
export async function metricsOf(headgate: Headgate): Promise<ReadonlyMap<string, number>> {
  const text = (await asked(`${headgate.adminUrl}/metrics`)).text;
  const samples = text.split('\n').flatMap((line) => {
    const [, name, value] = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
    return name === undefined ? [] : [[name, Number(value)] as const];
  });
  return new Map(samples);
}

/** One request on a connection of its own: with several of them, every process gets some. */
export function postAlone(url: string, body: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': Buffer.byteLength(body) };
    const options = { method: 'POST', agent: false, headers: { ...length, ...headers } } as const;
    const sent = request(url, options, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

export interface LogLine {
  readonly kind: string;
  readonly listener?: number;
  readonly pid?: number;
  readonly reason?: string;
}

/** The log so far; throws if a line is incomplete. */
export function logOf(headgate: Headgate): readonly LogLine[] {
  const whole = headgate.stderr.slice(0, headgate.stderr.lastIndexOf('\n') + 1);
  return whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as LogLine);
}
