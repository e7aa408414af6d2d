import { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import { suite, test } from 'node:test';
import { holdsTable } from '../../test/support/state-table.ts';
import assert from 'node:assert/strict';
import { deferred } from '../kit/promises.ts';
import { namesOf, Newcomers, readClientOpening } from './startup.ts';
import type { ClientTls, Newcomer } from './startup.ts';

/** A client's end of a connection: what it sends is given by the test, what it is told is kept. */
class Client extends Duplex {
  told = '';
  override _read(): void {}
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.told += chunk.toString();
    done();
  }
}

function packet(code: number, rest = ''): Buffer {
  const bytes = Buffer.alloc(8 + rest.length);
  bytes.writeUInt32BE(bytes.length);
  bytes.writeUInt32BE(code, 4);
  bytes.write(rest, 8);
  return bytes;
}

const version3 = 3 << 16;
const sent = {
  startup: packet(version3, 'user\0a\0\0'),
  cancel: packet((1234 << 16) | 5678, '12345678'),
  tls: packet((1234 << 16) | 5679),
  gss: packet((1234 << 16) | 5680),
};

/** An opening under way, on a door with TLS or without. */
class Bench {
  readonly #plain = new Client();
  readonly #secure = new Client();
  readonly #end: Promise<string>;
  #voice: Client;
  #over = false;

  constructor(withTls: boolean) {
    this.#voice = this.#plain;
    const begun = deferred<Socket>();
    // The handshake itself is of Node; what is behind it is another stream.
    const tls = {
      begin: () => {
        begun.resolve(this.#secure as unknown as Socket);
        this.#voice = this.#secure;
        return begun.promise;
      },
    } as unknown as ClientTls;
    const reading = readClientOpening(
      this.#plain as unknown as Socket,
      10_000,
      withTls ? tls : null,
      () => {},
    );
    this.#end = reading.then(
      ({ opening, encrypted, rest }) =>
        `${opening.kind}${encrypted ? ', encrypted' : ''}${rest.length > 0 ? `, and ${rest.length} bytes` : ''}`,
      (error: unknown) => (error as Error).message,
    );
    void this.#end.then(() => (this.#over = true));
  }

  async send(...bytes: readonly Buffer[]): Promise<this> {
    this.#voice.push(Buffer.concat(bytes));
    await new Promise(setImmediate);
    return this;
  }

  async after(...bytes: readonly Buffer[]): Promise<string> {
    this.#plain.told = '';
    await this.send(...bytes);
    return this.#said();
  }

  async leave(): Promise<string> {
    this.#plain.told = '';
    this.#voice.push(null);
    this.#voice.destroy();
    await new Promise(setImmediate);
    return this.#said();
  }

  async #said(): Promise<string> {
    return [this.#plain.told, this.#over ? await this.#end : 'waits'].filter((it) => it !== '').join(': ');
  }
}

test("the state table of a connection's start-up at the SQL port holds in every state at every event", async () => {
  const stranger = 'this is no PostgreSQL client';
  const left = 'the client left';
  const always = {
    startup: 'startup',
    'startup and more': 'startup, and 5 bytes',
    cancel: 'cancel',
    nonsense: stranger,
    leaves: left,
  };
  const declined = { ...always, 'half a packet': 'waits', 'a TLS handshake': stranger };
  const encrypted = 'the connection is encrypted already';
  await holdsTable(
    {
      'nothing has come, without TLS': {
        ...declined,
        'asks for TLS': 'N: waits',
        'asks for TLS and sends on': 'N: startup',
        'asks for GSSAPI': 'N: waits',
      },
      'asked once, without TLS': {
        ...declined,
        'asks for TLS': 'N: waits',
        'asks for TLS and sends on': 'N: startup',
        'asks for GSSAPI': 'N: waits',
      },
      'asked twice, without TLS': {
        ...declined,
        'asks for TLS': stranger,
        'asks for TLS and sends on': stranger,
        'asks for GSSAPI': stranger,
      },
      'nothing has come': {
        ...always,
        'half a packet': 'waits',
        'a TLS handshake': 'waits',
        'asks for TLS': 'S: waits',
        'asks for TLS and sends on': 'received unencrypted data after SSL request',
        'asks for GSSAPI': 'N: waits',
      },
      'asked for GSSAPI': {
        ...always,
        'half a packet': 'waits',
        'a TLS handshake': stranger,
        'asks for TLS': 'S: waits',
        'asks for TLS and sends on': 'received unencrypted data after SSL request',
        'asks for GSSAPI': 'N: waits',
      },
      encrypted: {
        startup: 'startup, encrypted',
        'startup and more': 'startup, encrypted, and 5 bytes',
        cancel: 'cancel, encrypted',
        nonsense: stranger,
        leaves: left,
        'half a packet': 'waits',
        'a TLS handshake': stranger,
        'asks for TLS': encrypted,
        'asks for TLS and sends on': encrypted,
        'asks for GSSAPI': encrypted,
      },
    },
    {
      'nothing has come, without TLS': () => new Bench(false),
      'asked once, without TLS': () => new Bench(false).send(sent.tls),
      'asked twice, without TLS': async () => (await new Bench(false).send(sent.gss)).send(sent.tls),
      'nothing has come': () => new Bench(true),
      'asked for GSSAPI': () => new Bench(true).send(sent.gss),
      encrypted: () => new Bench(true).send(sent.tls),
    },
    {
      startup: (it) => it.after(sent.startup),
      'startup and more': (it) => it.after(sent.startup, Buffer.from('Hello')),
      cancel: (it) => it.after(sent.cancel),
      nonsense: (it) => it.after(Buffer.from('GET / HTTP/1.1\r\n\r\n')),
      leaves: (it) => it.leave(),
      'half a packet': (it) => it.after(sent.startup.subarray(0, 6)),
      'a TLS handshake': (it) => it.after(Buffer.from([0x16, 3, 1, 0, 5])),
      'asks for TLS': (it) => it.after(sent.tls),
      'asks for TLS and sends on': (it) => it.after(sent.tls, sent.startup),
      'asks for GSSAPI': (it) => it.after(sent.gss),
    },
  );
});

suite('unauthenticated clients of the SQL port share its openings', () => {
  const room = (max: number) => {
    const gone: string[] = [];
    const newcomers = new Newcomers(max);
    const add = (network: string, name: string): Newcomer => {
      const newcomer = { network, makeWay: () => void gone.push(name) };
      newcomers.add(newcomer);
      return newcomer;
    };
    return { gone, newcomers, add };
  };

  test('an unauthenticated client beyond the bound evicts the one of the fullest network that is silent for longest', () => {
    const { gone, newcomers, add } = room(4);
    add('a', 'a1');
    const b1 = add('b', 'b1');
    add('b', 'b2');
    add('b', 'b3');
    newcomers.moved(b1);
    add('c', 'c1');
    assert.deepEqual(gone, ['b2']);
    // Its own newest one counts.
    add('b', 'b4');
    assert.deepEqual(gone, ['b2', 'b3']);
  });

  test('unauthenticated clients are evicted from the network silent for longest among equally full ones', () => {
    const { gone, newcomers, add } = room(2);
    const a = add('a', 'a');
    add('b', 'b');
    newcomers.moved(a);
    add('c', 'c');
    assert.deepEqual(gone, ['b']);
    newcomers.remove(a);
    newcomers.remove(a);
    newcomers.moved(a);
    add('d', 'd');
    assert.deepEqual(gone, ['b']);
    assert.equal(newcomers.evict(), true);
    assert.equal(newcomers.evict(), true);
    assert.equal(newcomers.evict(), false);
    assert.deepEqual(gone, ['b', 'c', 'd']);
  });
});

test("a session's user and database follow from its start-up packet as in PostgreSQL", () => {
  const names = (parameters: Record<string, string>) => namesOf(new Map(Object.entries(parameters)));
  assert.deepEqual(names({ user: 'a', database: 'b' }), { user: 'a', database: 'b' });
  assert.deepEqual(names({ user: 'a' }), { user: 'a', database: 'a' });
  assert.deepEqual(names({ user: 'a', database: '' }), { user: 'a', database: 'a' });
  const [long, cut] = ['l'.repeat(70), 'l'.repeat(63)];
  assert.deepEqual(names({ user: long, database: `${cut}x` }), { user: cut, database: cut });
});
