/**
 * Every attack against one program that is started once: one after the other, in random order, for half an hour
 * (BENCH_SECONDS), with an honest sender at the same time. Each attack meets what the previous ones left behind.
 */
import { once } from 'node:events';
import { attackNames } from './attacker.ts';
import { attackedTables, honest, longestStallMs, peakMiB, post, startAttacker } from './attacks.ts';
import { machine, table } from './report.ts';
import type { Bench } from './report.ts';
import { startService } from './service.ts';
import type { Service } from './service.ts';

/** How long one attack lasts, in s, and how many run at once. */
const attackSeconds = 10;
const attackersAtOnce = 1;

interface Mixed {
  readonly attacks: number;
  readonly stallsMs: readonly number[];
}

async function run(service: Service, until: number): Promise<Mixed> {
  const mixed = { attacks: 0, stallsMs: [] as number[] };
  const one = async () => {
    while (performance.now() < until) {
      const name = attackNames[Math.floor(Math.random() * attackNames.length)] ?? '';
      const attacker = startAttacker(name, service, attackSeconds);
      attacker.stdout.resume();
      await once(attacker, 'close');
      const stallMs = await longestStallMs(service);
      mixed.attacks += 1;
      mixed.stallsMs.push(stallMs);
      console.error(`${name}: peak ${peakMiB(service.pid).toFixed(0)} MiB, stall ${stallMs.toFixed(0)} ms`);
    }
  };
  await Promise.all(Array.from({ length: attackersAtOnce }, one));
  return mixed;
}

export const mixedAttacks: Bench = {
  name: 'mixed-attacks',
  page: 'docs/reliability.md',
  apart: true,
  run: async ({ seconds }) => {
    const service = await startService();
    try {
      await service.client.query(attackedTables);
      for (let i = 0; i < 50; i++) await post(service.url('honest'));
      const running = run(service, performance.now() + seconds * 1_000);
      const times = await honest(service.url('honest'), running);
      const { attacks, stallsMs } = await running;
      const answered = times.filter((ms) => !Number.isNaN(ms)).toSorted((a, b) => a - b);
      const at = (q: number) => (answered[Math.floor(q * (answered.length - 1))] ?? Number.NaN).toFixed(1);
      const head = ['attacks', 'peak MiB', 'longest stall ms', 'honest p50 ms', 'p99 ms', 'sent', 'not 200'];
      const line = [
        attacks,
        peakMiB(service.pid).toFixed(0),
        Math.max(...stallsMs).toFixed(0),
        at(0.5),
        at(0.99),
        times.length,
        times.length - answered.length,
      ];
      return `${machine()}; ${seconds} s\n\n${table(head, [line], 0)}`;
    } finally {
      await service.stop();
    }
  },
};
