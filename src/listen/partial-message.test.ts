import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { frame, opcodes } from '../../test/support/ws-frames.ts';
import { PartialMessage } from './partial-message.ts';

interface Frame {
  readonly payload: number;
  readonly end: number;
  /** What it makes: a message of this many bytes, a ping, or nothing yet. */
  readonly message: number | null;
  readonly ping: boolean;
}

const message = fc.record({
  size: fc.oneof(fc.nat(300), fc.nat(70_000)),
  pieces: fc.integer({ min: 1, max: 4 }),
  ping: fc.boolean(),
});

function framesOf(messages: readonly { size: number; pieces: number; ping: boolean }[]): Frame[] {
  const frames: Frame[] = [];
  let end = 0;
  const add = (payload: number, opcode: number, made: Pick<Frame, 'message' | 'ping'>) => {
    end += frame(opcode, Buffer.alloc(payload)).length;
    frames.push({ payload, end, ...made });
  };
  for (const { size, pieces, ping } of messages) {
    const step = Math.ceil(size / pieces);
    for (let i = 0, left = size; i < pieces; i++, left -= step) {
      const last = i === pieces - 1;
      const payload = Math.max(0, last ? left : Math.min(step, left));
      add(payload, opcodes.text, { message: last ? size : null, ping: false });
      if (ping) add(5, opcodes.ping, { message: null, ping: true });
    }
  }
  return frames;
}

test('the estimate of a partial WebSocket message is never below what the receiver holds', () => {
  const cuts = fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1 });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), cuts, (messages, cuts) => {
      const frames = framesOf(messages);
      const total = frames.at(-1)?.end ?? 0;
      const partial = new PartialMessage();
      let next = 0;
      /** Payload of the frames of the message that is not whole. */
      let payloads = 0;
      for (let at = 0, i = 0; at < total; i++) {
        const piece = Math.min(cuts[i % cuts.length] ?? 1, total - at);
        partial.received(piece);
        at += piece;
        for (let it = frames[next]; it !== undefined && it.end <= at; it = frames[++next]) {
          if (it.ping) partial.emitted(it.payload, false);
          else payloads += it.payload;
          if (it.message === null) continue;
          partial.emitted(it.message, true);
          payloads = 0;
        }
        partial.settled();
        const held = payloads + at - (frames[next - 1]?.end ?? 0);
        assert.ok(partial.held >= held, `${partial.held} is less than ${held}`);
      }
      if (messages.every(({ pieces }) => pieces === 1)) assert.equal(partial.held, 0);
    }),
  );
});
