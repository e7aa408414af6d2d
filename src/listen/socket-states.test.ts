import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { WebSocket } from 'ws';
import { holdsTable } from '../../test/support/state-table.ts';
import { BytesInFlight } from '../http/budget.ts';
import type { Stream } from '../ingest/ingest-stream.ts';
import { deferred } from '../kit/promises.ts';
import type { Outcome } from '../types/rows.ts';
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { SocketSession } from './socket-session.ts';
import { Backlogs } from './unacked.ts';

const nowMs = 1_000_000;
const init = Buffer.from(JSON.stringify({ type: 'init', timestamp: nowMs }));
const late = Buffer.from(JSON.stringify({ type: 'init', timestamp: 0 }));
const batch = (id: number) =>
  Buffer.from(`{"dml_batch_id":${id},"items":[{"op":"insert","data":{"n":${id}}}]}`);

/** A session between a WebSocket that a test holds and a stream whose outcomes it decides. */
class Bench {
  readonly #said: string[] = [];
  readonly #socket = new EventEmitter();
  readonly #ws = Object.assign(new EventEmitter(), {
    bufferedAmount: 0,
    isPaused: false,
    send: (text: string) => this.#said.push(text),
    close: (code: number) => this.#said.push(`close ${code}`),
    pause: () => undefined,
    resume: () => undefined,
  });
  readonly #stream = deferred<Stream>();
  readonly #outcomes: ((outcome: Outcome) => void)[] = [];
  readonly #session: SocketSession;

  constructor() {
    // Where nobody has asked for it.
    this.#stream.promise.catch(() => undefined);
    const socket = Object.assign(this.#socket, { destroySoon: () => this.#said.push('destroyed') });
    this.#session = new SocketSession(
      {
        streams: { open: () => this.#stream.promise },
        observe: (it) => {
          if (it.kind === 'websocket.closed') this.#said.push(it.code);
        },
        limits,
        inFlight: new BytesInFlight(limits.bodiesInFlightBytesMax),
        backlogs: new Backlogs(limits),
        now: () => nowMs,
        gate: null,
        tracer: null,
        scheme: 'ws',
      },
      this.#ws as unknown as WebSocket,
      socket as unknown as Socket,
      { method: 'GET', url: '/ingest/dev/public/t', rawHeaders: [] } as unknown as IncomingMessage,
    );
  }

  message(data: Buffer, binary = false): this {
    this.#socket.emit('data', data);
    this.#ws.emit('message', data, binary);
    return this;
  }

  async opens(): Promise<this> {
    this.#stream.resolve({
      submit: () => {
        this.#said.push('submitted');
        return new Promise((resolve) => this.#outcomes.push(resolve));
      },
      end: () => void this.#said.push('stream ended'),
    });
    await new Promise(setImmediate);
    return this;
  }

  refuses(): void {
    this.#stream.reject(new Refused('signature_failed'));
  }

  decide(outcome: Outcome): void {
    this.#outcomes.shift()?.(outcome);
  }

  drain(): this {
    this.#session.drain();
    return this;
  }

  late(): void {
    this.#session.sweep(performance.now() + limits.websocketInitTimeoutMs + 1);
  }

  wrongFrames(): void {
    this.#ws.emit('error', Object.assign(new Error('x'), { code: 'WS_ERR_INVALID_OPCODE' }));
  }

  leave(): this {
    this.#ws.emit('close');
    return this;
  }

  /** What was said since: to the client, to the stream, and of the connection's end. */
  async after(happens: () => unknown): Promise<string> {
    this.#said.length = 0;
    happens();
    await new Promise(setImmediate);
    return this.#said.join(', ');
  }
}

const committed: Outcome = { kind: 'committed', rows: 1 };
const refused: Outcome = { kind: 'aborted', refusal: refusal('row_refused') };

test("a WebSocket's state table holds in every state at every event", async () => {
  const opening = () => new Bench().message(init);
  const open = () => opening().opens();
  const answering = async () => (await open()).message(batch(1));
  const nothing = {
    'a batch comes': '',
    'a batch comes again': '',
    'an init frame comes': '',
    'a binary message comes': '',
    'the table is found': '',
    'the table is not opened': '',
    'the first batch is committed': '',
    'the first batch is refused': '',
    'time passes': '',
    'frames are wrong': '',
    'the client leaves': '',
    'Headgate stops': '',
  };
  const binary = '{"fatal":"malformed payload: binary messages are not read"}, close 1003';
  const rowRefused =
    '{"fatal":"dml_batch_id 1: the row does not fit the table"}, close 1008, stream ended, row_refused';
  const begun = {
    ...nothing,
    'frames are wrong': 'malformed_payload',
    'the client leaves': 'closed',
    'Headgate stops': 'close 1001, draining',
  };
  const streaming = {
    ...nothing,
    'frames are wrong': 'stream ended, malformed_payload',
    'the client leaves': 'stream ended, closed',
  };
  await holdsTable(
    {
      silent: {
        ...begun,
        'a binary message comes': `${binary}, malformed_payload`,
        'time passes': '{"fatal":"no init frame came in time"}, close 1008, request_timeout',
      },
      opening: {
        ...begun,
        'the table is not opened': '{"fatal":"Signature verification failed"}, close 1008, signature_failed',
      },
      'opening, closed meanwhile': { ...nothing, 'the table is found': 'stream ended' },
      'opening with a wrong clock, closed meanwhile': { ...nothing, 'the table is found': 'stream ended' },
      open: {
        ...streaming,
        'a batch comes': 'submitted',
        'a batch comes again': 'submitted',
        'an init frame comes':
          '{"fatal":"malformed payload: missing field `dml_batch_id`"}, close 1008, stream ended, malformed_payload',
        'a binary message comes': `${binary}, stream ended, malformed_payload`,
        'Headgate stops': 'close 1001, stream ended, draining',
      },
      // Nothing is said before the batch of before is answered.
      'open, one is not answered': {
        ...streaming,
        'a batch comes': 'submitted',
        'the first batch is committed': '{"ack":1}',
        'the first batch is refused': rowRefused,
      },
      'ending, one is not answered': {
        ...streaming,
        'the first batch is committed': '{"ack":1}, close 1001, stream ended, draining',
        'the first batch is refused': rowRefused,
      },
      closed: nothing,
    },
    {
      silent: () => new Bench(),
      opening,
      'opening, closed meanwhile': () => opening().drain(),
      'opening with a wrong clock, closed meanwhile': () => new Bench().message(late).drain(),
      open,
      'open, one is not answered': answering,
      'ending, one is not answered': async () => (await answering()).drain(),
      closed: async () => (await open()).leave(),
    },
    {
      'a batch comes': (it) => it.after(() => it.message(batch(2))),
      'a batch comes again': (it) => it.after(() => it.message(batch(1))),
      'an init frame comes': (it) => it.after(() => it.message(init)),
      'a binary message comes': (it) => it.after(() => it.message(init, true)),
      'the table is found': (it) => it.after(() => it.opens()),
      'the table is not opened': (it) => it.after(() => it.refuses()),
      'the first batch is committed': (it) => it.after(() => it.decide(committed)),
      'the first batch is refused': (it) => it.after(() => it.decide(refused)),
      'time passes': (it) => it.after(() => it.late()),
      'frames are wrong': (it) => it.after(() => it.wrongFrames()),
      'the client leaves': (it) => it.after(() => it.leave()),
      'Headgate stops': (it) => it.after(() => it.drain()),
    },
  );
});
