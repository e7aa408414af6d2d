/**
 * What one hostile client costs the others: for each attack Headgate's peak memory, the longest stall of its event
 * loop, and how long an honest sender waited for its answers meanwhile.
 */
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { attackNames } from './attacker.ts';
import { script } from './processes.ts';
import { machine, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { startService } from './service.ts';
import type { Service } from './service.ts';

/** Requests per second of the honest sender. */
const honestPerSecond = 50;

const agent = new Agent({ keepAlive: true, maxSockets: 16 });

/** ms until the answer; NaN: it was not a 200. */
export function post(url: string): Promise<number> {
  const started = performance.now();
  return new Promise((resolve) => {
    const sent = request(url, { method: 'POST', agent }, (response) => {
      response.resume().on('end', () => {
        resolve(response.statusCode === 200 ? performance.now() - started : Number.NaN);
      });
    });
    sent.on('error', () => resolve(Number.NaN));
    sent.end('{"honest":true}');
  });
}

export async function honest(url: string, until: Promise<unknown>): Promise<number[]> {
  const answers: Promise<number>[] = [];
  const state = { ended: false };
  void until.then(() => (state.ended = true));
  const started = performance.now();
  while (!state.ended) {
    answers.push(post(url));
    await delay(Math.max(0, started + (answers.length * 1_000) / honestPerSecond - performance.now()));
  }
  return Promise.all(answers);
}

/** The longest stall of the event loop since the last call, in ms. */
export async function longestStallMs(service: Service): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${service.ports.admin.port}/metrics`)).text();
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(metrics)?.[1] ?? Number.NaN) * 1_000;
}

export function peakMiB(pid: number): number {
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib ?? Number.NaN) / 1_024;
}

/** In a process of its own, which ends on its own and prints its results on standard output. */
export function startAttacker(name: string, service: Service, seconds: number) {
  const { listen, sql, gateway } = service.ports;
  const ports = [listen.port, sql.port, gateway?.port ?? 0].map(String);
  return spawn(process.execPath, [script('./attacker.js'), name, ...ports, String(seconds)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function attack(name: string, service: Service, seconds: number): Promise<(string | number)[]> {
  // Resets the peak (proc(5)).
  writeFileSync(`/proc/${service.pid}/clear_refs`, '5');
  await longestStallMs(service);
  const attacker = startAttacker(name, service, seconds);
  let said = '';
  attacker.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  const times = await honest(service.url('honest'), once(attacker, 'close'));
  const stallMs = await longestStallMs(service);
  const sorted = times.filter((ms) => !Number.isNaN(ms)).toSorted((a, b) => a - b);
  const at = (q: number) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
  return [
    name,
    said.trim(),
    peakMiB(service.pid).toFixed(0),
    stallMs.toFixed(0),
    at(0.5).toFixed(1),
    at(0.99).toFixed(0),
    times.length - sorted.length,
  ];
}

/** The tables that the attackers know. */
export const attackedTables = `
  create table honest (data jsonb) with (connector = 'webhook');
  create table open (data jsonb) with (connector = 'webhook');
  create table typed (id bigint, note text, n numeric) with (connector = 'webhook');
  create table plain (a bigint, b text);
  create table wide (data jsonb) include headers as headers include timestamp as at
    with (connector = 'webhook', is_batched = true);
  create table lines (data jsonb) with (connector = 'webhook', is_batched = true);
  create table form (data jsonb) with (connector = 'webhook', format = 'form');
  create secret s with (backend = 'meta') as 'key';
  create table signed (data jsonb) with (connector = 'webhook') validate secret s as
    secure_compare(headers->>'x-signature', encode(hmac(s, data, 'sha256'), 'hex'))`;

export const attacks: Bench = {
  name: 'attacks',
  page: 'docs/reliability.md',
  run: async ({ seconds }: Effort) => {
    const lines: (string | number)[][] = [];
    const wanted = process.env['BENCH_ATTACKS']?.split(';');
    for (const name of attackNames.filter((it) => wanted?.includes(it) ?? true)) {
      // Each attack gets a program that has done nothing before.
      const service = await startService();
      try {
        await service.client.query(attackedTables);
        for (let i = 0; i < 50; i++) await post(service.url('honest'));
        const line = await attack(name, service, seconds);
        console.error(line.join(' | '));
        lines.push(line);
      } finally {
        await service.stop();
      }
    }
    const head = ['attack', 'what it got', 'peak MiB', 'stall ms', 'honest p50 ms', 'p99 ms', 'not 200'];
    return `${machine()}; ${seconds} s each\n\n${table(head, lines, 2)}`;
  },
};
