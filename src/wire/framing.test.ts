import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Framer, ProtocolViolation, unread, type FrameRewrite } from './framing.ts';

const frame = (type: string, body: Buffer): Buffer => {
  const header = Buffer.alloc(5, type);
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
};

/** By type: U passes unread, S is seen as a whole, H its head, R is replaced, W is held and kept, X held and replaced. */
const reader = {
  begin: (type: number, length: number): number => {
    const letter = String.fromCharCode(type);
    return letter === 'U' ? unread : letter === 'H' ? Math.min(3, length) : length;
  },
  message: (type: number, body: Buffer): FrameRewrite | Promise<FrameRewrite> => {
    const replaced = frame('r', Buffer.from(`<${body.toString('hex')}>`));
    switch (String.fromCharCode(type)) {
      case 'R':
        return replaced;
      case 'W':
        return Promise.resolve(null);
      case 'X':
        return Promise.resolve(replaced);
      default:
        return null;
    }
  },
};

const messages = fc.array(
  fc.record({ type: fc.constantFrom('U', 'S', 'H', 'R', 'W', 'X'), body: fc.uint8Array({ maxLength: 40 }) }),
  { maxLength: 12 },
);

test('message framing passes the same bytes on for any chunks', async () => {
  await fc.assert(
    fc.asyncProperty(
      messages,
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
      async (sent, cuts) => {
        const input = Buffer.concat(sent.map(({ type, body }) => frame(type, Buffer.from(body))));
        const expected = Buffer.concat(
          sent.map(({ type, body }) =>
            type === 'R' || type === 'X'
              ? frame('r', Buffer.from(`<${Buffer.from(body).toString('hex')}>`))
              : frame(type, Buffer.from(body)),
          ),
        );
        const out: Buffer[] = [];
        const framer = new Framer(reader, (bytes) => out.push(Buffer.from(bytes)));
        let turn = 0;
        for (let at = 0; at < input.length; turn += 1) {
          const size = cuts[turn % cuts.length]!;
          const held = framer.push(input.subarray(at, at + size));
          if (held !== null) await held;
          at += size;
        }
        assert.equal(Buffer.concat(out).toString('hex'), expected.toString('hex'));
        assert.ok(framer.atBoundary);
      },
    ),
    { numRuns: 2_000 },
  );
});

test('unchanged messages leave the framer as the chunk received', () => {
  const out: Buffer[] = [];
  const framer = new Framer(reader, (bytes) => out.push(bytes));
  const chunk = Buffer.concat([
    frame('U', Buffer.alloc(9)),
    frame('S', Buffer.alloc(0)),
    frame('U', Buffer.alloc(100)).subarray(0, 50),
  ]);
  void framer.push(chunk);
  assert.equal(out.length, 1);
  assert.equal(out[0], chunk);
  assert.equal(framer.emittedWhole, false);
});

test('the framer holds back the messages behind a held message, and none before it', async () => {
  const out: string[] = [];
  const framer = new Framer(reader, (bytes) =>
    out.push(bytes.toString('latin1').replaceAll(/[^UWa-z]/g, '')),
  );
  const chunk = Buffer.concat([
    frame('U', Buffer.from('a')),
    frame('W', Buffer.from('b')),
    frame('U', Buffer.from('c')),
  ]);
  const held = framer.push(chunk);
  assert.deepEqual(out, ['Ua']);
  assert.equal(framer.atBoundary, false);
  assert.throws(() => framer.push(chunk), /held/);
  await held;
  assert.deepEqual(out, ['Ua', 'Wb', 'Uc']);
});

test('the framer refuses a message length below four', () => {
  for (const cut of [1, 5, 9]) {
    const framer = new Framer(reader, () => {});
    const bytes = Buffer.from([0x55, 0, 0, 0, 3, 0, 0, 0, 0]);
    assert.throws(() => {
      void framer.push(bytes.subarray(0, cut));
      void framer.push(bytes.subarray(cut, 9));
      void framer.push(Buffer.alloc(1));
    }, ProtocolViolation);
  }
});
