import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import fc from 'fast-check';
import { TableGate } from '../../spool/table-order.ts';
import { unusableTarget } from '../../catalog/target.ts';
import { Refused } from '../../errors/refusals.ts';
import { SpoolServer } from './spool-server.ts';
import { SpoolClient } from './spool-client.ts';
import type { SpoolReply, SpoolNotice } from './messages.ts';

const oid = 7;
const target = unusableTarget({ database: 'dev', schema: 'public', table: 't', oid });

/** A process and its channel, on which messages wait until they are let through. */
class Side {
  readonly link: SpoolClient;
  readonly toMain: SpoolReply[] = [];
  readonly fromMain: SpoolNotice[] = [];
  readonly ends: string[] = [];
  readonly #desk: SpoolServer;

  constructor(desk: SpoolServer) {
    this.#desk = desk;
    this.link = new SpoolClient((said) => this.toMain.push(said));
  }

  tellSpool(told: SpoolNotice): void {
    this.fromMain.push(told);
  }

  get gate() {
    const gate = this.link.spoolOf('dev')?.gateOf(oid);
    assert(gate !== undefined);
    return gate;
  }

  up(): void {
    const said = this.toMain.shift();
    if (said !== undefined) this.#desk.said(this, said);
  }

  down(): void {
    const told = this.fromMain.shift();
    if (told !== undefined) this.link.told(told);
  }

  keep(): void {
    const { gate } = this;
    const done = this.link.spoolOf('dev')?.append(target, gate, Buffer.from('x'));
    done?.then(
      () => this.ends.push('kept'),
      (error: unknown) => this.ends.push(error instanceof Refused ? error.refusal.code : String(error)),
    );
  }
}

function stage(processes: number) {
  const gate = new TableGate(oid);
  const appended: string[] = [];
  const desk = new SpoolServer();
  desk.opened({
    database: 'dev',
    gates: [gate],
    gateOf: () => gate,
    wake: () => undefined,
    append: async (_table, _gate, payload) => void appended.push(payload.toString()),
  });
  const sides = Array.from({ length: processes }, () => new Side(desk));
  for (const side of sides) {
    desk.serves(side);
    side.down();
  }
  return { gate, desk, sides, appended };
}

async function quiet(sides: readonly Side[]): Promise<void> {
  for (let i = 0; i < 40; i++) {
    for (const side of sides) {
      side.up();
      side.down();
    }
    await turn();
  }
}

test("no request is spooled before every process has closed the table's gate, and the gate opens in all of them", async () => {
  const { gate, sides, appended } = stage(2);
  const [one, other] = sides as [Side, Side];
  other.gate.enterLane();
  one.gate.fill(1);
  one.keep();
  await quiet(sides);
  // Its lane has one left.
  assert.deepEqual([gate.state, other.gate.state, appended, one.ends], ['filling', 'filling', [], []]);
  other.gate.leaveLane();
  await quiet(sides);
  assert.deepEqual([gate.state, one.gate.state, other.gate.state], ['spooling', 'spooling', 'spooling']);
  assert.deepEqual([appended, one.ends], [['x'], ['kept']]);
  gate.beginEmptying();
  gate.open();
  await quiet(sides);
  assert.deepEqual([one.gate.state, other.gate.state], ['open', 'open']);
});

test("a request for the spool goes to the lane if its table's gate has opened meanwhile", async () => {
  const { gate, sides, appended } = stage(1);
  const [one] = sides as [Side];
  one.gate.fill(1);
  await quiet(sides);
  gate.beginEmptying();
  gate.open();
  one.keep();
  await quiet(sides);
  assert.deepEqual([one.ends, appended, one.gate.state], [['table_changed'], [], 'open']);
});

test('a dead listener process is not waited for, and a new one learns the closed gates before it accepts', async () => {
  const { gate, desk, sides } = stage(2);
  const [one, other] = sides as [Side, Side];
  other.gate.enterLane();
  one.gate.fill(1);
  await quiet([one]);
  assert.equal(gate.state, 'filling');
  desk.gone(other);
  assert.equal(gate.state, 'spooling');
  const third = new Side(desk);
  desk.serves(third);
  third.down();
  third.down();
  assert.equal(third.gate.state, 'spooling');
});

test('a listener process that does not answer costs only its own requests a 503', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { sides } = stage(2);
  const [one, other] = sides as [Side, Side];
  other.gate.enterLane();
  one.gate.fill(1);
  one.keep();
  await quiet([one]);
  t.mock.timers.tick(60_000);
  await quiet([one]);
  assert.deepEqual(one.ends, ['deadline']);
});

test("no table's gate is open while a request is spooled, in any order of messages, and in the end all are", () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('fill', 'keep', 'up', 'down', 'drain', 'open', 'turn'), { maxLength: 60 }),
      fc.infiniteStream(fc.nat(1)),
      async (steps, which) => {
        const { gate, sides, appended } = stage(2);
        let kept = 0;
        for (const step of steps) {
          const side = sides[which.next().value ?? 0];
          if (side === undefined) continue;
          if (step === 'fill') side.gate.fill(1);
          else if (step === 'keep' && side.gate.state === 'spooling') side.keep();
          else if (step === 'up') side.up();
          else if (step === 'down') side.down();
          else if (step === 'drain') gate.beginEmptying();
          else if (step === 'open') gate.open();
          else await turn();
          if (appended.length > kept) assert(sides.every((one) => one.gate.state !== 'open'));
          kept = appended.length;
        }
        await quiet(sides);
        if (gate.state === 'filling') assert.fail('a process has not closed it');
        gate.beginEmptying();
        gate.open();
        await quiet(sides);
        assert.deepEqual([gate.state, ...sides.map((one) => one.gate.state)], ['open', 'open', 'open']);
      },
    ),
    { numRuns: 300 },
  ));
