/** Every state of a connection that is read here, and every event in it, over real sockets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FastBench, ok, path } from '../../test/support/fast-bench.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { holdsTable } from '../../test/support/state-table.ts';

const rest = 'x'.repeat(900);
const half = post(path, rest).slice(0, -rest.length);
const other = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n';

/** On one machine what was written is there to be read; how many turns of the loop reading takes, and answering, is few. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 12; turn++) await new Promise(setImmediate);
}

test("a fast-path connection's state table holds in every state at every event", async (t) => {
  const bench = await FastBench.open(t, { fastHoldMs: 60_000 });

  class One {
    readonly client: RawClient;
    readonly #begunBefore = bench.begun.length;
    readonly #handedBefore = bench.handed.length;
    #isClosed = false;

    constructor(client: RawClient) {
      this.client = client;
      client.socket.on('error', () => undefined);
      void client.closed.then(() => (this.#isClosed = true));
    }

    static async after(...steps: readonly ((one: One) => void)[]): Promise<One> {
      const one = new One(await RawClient.connect(bench.port));
      for (const step of steps) {
        step(one);
        await settled();
      }
      return one;
    }

    get #begun() {
      return bench.begun.slice(this.#begunBefore);
    }

    send(bytes: string): void {
      if (this.client.socket.writable) this.client.send(bytes);
    }

    answer(closes = false): void {
      this.#begun.find(({ answer }) => answer.message === null)?.answer.send(ok, closes, 0);
    }

    /** How many requests began, how many answers came, what Node was given, and whether it is closed from the other side. */
    async whatIs(): Promise<string> {
      await settled();
      const answers = this.client.unread.split('HTTP/1.1 200').length - 1;
      const [handed] = bench.handed
        .slice(this.#handedBefore)
        .map((text) =>
          text
            .replaceAll(half, 'half ')
            .replaceAll(rest, 'rest ')
            .replaceAll(other, 'other ')
            .replaceAll(post(path, '1'), 'request '),
        );
      const said = `${this.#begun.length} begun, ${answers} answered`;
      const closed = this.#isClosed ? ', closed' : '';
      this.client.destroy();
      await settled();
      return `${said}${handed === undefined ? '' : `, Node reads ${handed.trim()}`}${closed}`;
    }
  }

  const request = (one: One) => one.send(post(path, '1'));
  const begins = (one: One) => one.send(half);
  const leaves = (one: One) => one.send(other);
  const answers = (one: One) => one.answer();
  const happens = (step: (one: One) => void) => async (one: One) => {
    step(one);
    return one.whatIs();
  };

  await holdsTable(
    {
      new: {
        'a request comes': '1 begun, 0 answered',
        'half a request comes': '0 begun, 0 answered',
        'its rest comes': '0 begun, 0 answered, Node reads rest',
        'another kind of request comes': '0 begun, 0 answered, Node reads other',
        'an answer is given': '0 begun, 0 answered',
        'an answer is given that closes': '0 begun, 0 answered',
        'the sender ends its half': '0 begun, 0 answered, closed',
        'the sender is gone': '0 begun, 0 answered, closed',
        'what is idle is ended': '0 begun, 0 answered',
        'what is held is left to Node': '0 begun, 0 answered',
      },
      answered: {
        'a request comes': '2 begun, 1 answered',
        'half a request comes': '1 begun, 1 answered',
        'its rest comes': '1 begun, 1 answered, Node reads rest',
        'another kind of request comes': '1 begun, 1 answered, Node reads other',
        'an answer is given': '1 begun, 1 answered',
        'an answer is given that closes': '1 begun, 1 answered',
        'the sender ends its half': '1 begun, 1 answered, closed',
        'the sender is gone': '1 begun, 1 answered, closed',
        'what is idle is ended': '1 begun, 1 answered, closed',
        'what is held is left to Node': '1 begun, 1 answered',
      },
      holding: {
        'a request comes': '0 begun, 0 answered',
        'half a request comes': '0 begun, 0 answered',
        'its rest comes': '1 begun, 0 answered',
        'another kind of request comes': '0 begun, 0 answered',
        'an answer is given': '0 begun, 0 answered',
        'an answer is given that closes': '0 begun, 0 answered',
        'the sender ends its half': '0 begun, 0 answered, Node reads half <end>',
        'the sender is gone': '0 begun, 0 answered, closed',
        'what is idle is ended': '0 begun, 0 answered',
        'what is held is left to Node': '0 begun, 0 answered, Node reads half',
      },
      owing: {
        'a request comes': '2 begun, 0 answered',
        'half a request comes': '1 begun, 0 answered',
        'its rest comes': '1 begun, 0 answered',
        'another kind of request comes': '1 begun, 0 answered',
        'an answer is given': '1 begun, 1 answered',
        'an answer is given that closes': '1 begun, 1 answered, closed',
        'the sender ends its half': '1 begun, 0 answered',
        'the sender is gone': '1 begun, 0 answered, closed',
        'what is idle is ended': '1 begun, 0 answered',
        'what is held is left to Node': '1 begun, 0 answered',
      },
      'owing and holding': {
        'a request comes': '1 begun, 0 answered',
        'half a request comes': '1 begun, 0 answered',
        'its rest comes': '2 begun, 0 answered',
        'another kind of request comes': '1 begun, 0 answered',
        'an answer is given': '1 begun, 1 answered',
        'an answer is given that closes': '1 begun, 1 answered, closed',
        'the sender ends its half': '1 begun, 0 answered',
        'the sender is gone': '1 begun, 0 answered, closed',
        'what is idle is ended': '1 begun, 0 answered',
        'what is held is left to Node': '1 begun, 0 answered',
      },
      leaving: {
        'a request comes': '1 begun, 0 answered',
        'half a request comes': '1 begun, 0 answered',
        'its rest comes': '1 begun, 0 answered',
        'another kind of request comes': '1 begun, 0 answered',
        'an answer is given': '1 begun, 1 answered, Node reads other',
        'an answer is given that closes': '1 begun, 1 answered, closed',
        'the sender ends its half': '1 begun, 0 answered',
        'the sender is gone': '1 begun, 0 answered, closed',
        'what is idle is ended': '1 begun, 0 answered',
        'what is held is left to Node': '1 begun, 0 answered',
      },
      left: {
        'a request comes': '0 begun, 0 answered, Node reads other request',
        'half a request comes': '0 begun, 0 answered, Node reads other half',
        'its rest comes': '0 begun, 0 answered, Node reads other rest',
        'another kind of request comes': '0 begun, 0 answered, Node reads other other',
        'an answer is given': '0 begun, 0 answered, Node reads other',
        'an answer is given that closes': '0 begun, 0 answered, Node reads other',
        'the sender ends its half': '0 begun, 0 answered, Node reads other <end>',
        'the sender is gone': '0 begun, 0 answered, Node reads other, closed',
        'what is idle is ended': '0 begun, 0 answered, Node reads other',
        'what is held is left to Node': '0 begun, 0 answered, Node reads other',
      },
      'told to close': {
        'a request comes': '1 begun, 0 answered',
        'half a request comes': '1 begun, 0 answered',
        'its rest comes': '1 begun, 0 answered',
        'another kind of request comes': '1 begun, 0 answered',
        'an answer is given': '1 begun, 1 answered',
        'an answer is given that closes': '1 begun, 1 answered, closed',
        'the sender ends its half': '1 begun, 0 answered',
        'the sender is gone': '1 begun, 0 answered, closed',
        'what is idle is ended': '1 begun, 0 answered',
        'what is held is left to Node': '1 begun, 0 answered',
      },
      'its sender has ended': {
        'a request comes': '1 begun, 0 answered',
        'half a request comes': '1 begun, 0 answered',
        'its rest comes': '1 begun, 0 answered',
        'another kind of request comes': '1 begun, 0 answered',
        'an answer is given': '1 begun, 1 answered, closed',
        'an answer is given that closes': '1 begun, 1 answered, closed',
        'the sender ends its half': '1 begun, 0 answered',
        'the sender is gone': '1 begun, 0 answered, closed',
        'what is idle is ended': '1 begun, 0 answered',
        'what is held is left to Node': '1 begun, 0 answered',
      },
    },
    {
      new: () => One.after(),
      answered: () => One.after(request, answers),
      holding: () => One.after(begins),
      owing: () => One.after(request),
      'owing and holding': () => One.after(request, begins),
      leaving: () => One.after(request, leaves),
      left: () => One.after(leaves),
      'told to close': () => One.after((one) => one.send(post(path, '1', 'Connection: close\r\n'))),
      'its sender has ended': () => One.after(request, (one) => one.client.socket.end()),
    },
    {
      'a request comes': happens(request),
      'half a request comes': happens(begins),
      'its rest comes': happens((one) => one.send(rest)),
      'another kind of request comes': happens(leaves),
      'an answer is given': happens(answers),
      'an answer is given that closes': happens((one) => one.answer(true)),
      'the sender ends its half': happens((one) => void one.client.socket.end()),
      'the sender is gone': happens((one) => one.client.reset()),
      'what is idle is ended': happens(() => bench.all.endIdle()),
      'what is held is left to Node': happens(() => void bench.all.leaveHeld()),
    },
  );
  assert.equal(bench.all.heldBytes, 0);
});
