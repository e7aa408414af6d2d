/** The goals for Headgate's speed, and their table: each run updates the lines of what it measured. Pure. */
import { table } from './report.ts';

interface Goal {
  readonly what: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  readonly unit?: string;
  readonly digits?: number;
  readonly section: string;
}

export const goals = {
  bare: {
    what: 'signed durable single events, 256 connections, beside a bare `node:http` server that stores nothing',
    atLeast: 1,
    section: 'single-events',
  },
  bare1024: { what: 'the same with 1,024', atLeast: 0.9, section: 'single-events' },
  bare64: { what: 'the same with 64', atLeast: 0.9, section: 'single-events' },
  bare16: { what: 'the same with 16', atLeast: 0.5, section: 'single-events' },
  byHand: {
    what: 'signed durable single events beside Fastify + `pg`, one INSERT a request, the better of its two forms',
    atLeast: 4,
    digits: 1,
    section: 'comparison',
  },
  peer: {
    what: 'signed durable single events beside Go with `fasthttp` and a COPY of `pgx` for each group',
    atLeast: 0.8,
    section: 'comparison',
  },
  halfLoad: { what: 'p99 at half of the load of 256', atMost: 20, unit: ' ms', digits: 1, section: 'single-events' },
  halfLoadTimes: { what: 'the same, beside that of the bare server', atMost: 3, digits: 1, section: 'single-events' },
  events: { what: '/v1/events, one event a request, beside webhooks', atLeast: 0.95, section: 'events' },
  memory: {
    what: 'memory of the Node process at 256 connections',
    atMost: 200,
    unit: ' MiB',
    digits: 0,
    section: 'single-events',
  },
  oneOfManyTables: { what: 'one of 5,000 tables beside the only one', atLeast: 0.9, section: 'spread' },
  manyTables: {
    what: 'the same requests spread over 5,000 tables beside one table',
    atLeast: 0.6,
    section: 'spread',
  },
} as const satisfies Readonly<Record<string, Goal>>; // prettier-ignore

export type GoalName = keyof typeof goals;
export type Reached = Readonly<Partial<Record<GoalName, number>>>;

function goalLine(goal: Goal, value: number): readonly string[] {
  const { atLeast, atMost, unit = '', digits = 2 } = goal;
  const met = Number.isFinite(value) && value >= (atLeast ?? -Infinity) && value <= (atMost ?? Infinity);
  return [
    goal.what,
    atLeast === undefined ? `≤ ${atMost}${unit}` : `≥ ${atLeast}${unit}`,
    Number.isFinite(value) ? `**${value.toFixed(digits)}${unit}**${met ? '' : ' (missed)'}` : 'failed',
    `[${goal.section}](#${goal.section})`,
  ];
}

/** The table of goals with the new results, and those of `before` for the rest. */
export function goalTable(reached: Reached, before: string): string {
  const known = new Map<string, string[]>();
  for (const line of before.split('\n')) {
    const cells = line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, ''));
    known.set(cells[0] ?? '', cells);
  }
  const lines = (Object.entries(goals) as [GoalName, Goal][]).map(([name, goal]) => {
    const value = reached[name];
    if (value !== undefined) return goalLine(goal, value);
    const old = known.get(goal.what);
    const line = goalLine(goal, Number.NaN);
    return [...line.slice(0, 2), old?.[2] ?? 'not measured', ...line.slice(3)];
  });
  return table(['goal', 'aim', 'measured', 'where'], lines, 1);
}

/** `page` with `text` between the comments that mark the section `name`; null: it has no such section. */
export function withSection(page: string, name: string, text: string): string | null {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from < 0 || to < from) return null;
  return `${page.slice(0, from + start.length)}\n${text}\n${page.slice(to)}`;
}

export function sectionOf(page: string, name: string): string {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  return from < 0 || to < from ? '' : page.slice(from + start.length, to).trim();
}
