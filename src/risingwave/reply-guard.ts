/**
 * What a server that `into` names may send. node-postgres trusts its server: a message that ends too early ends the process or blocks it
 * indefinitely, and everything received is kept. Takes the bytes of a connection, returns messages that can be parsed; throws if no RisingWave
 * would send them. Bounded by `intoAnswerBytesMax` and `intoAnswerMessagesMax` from one query to the next.
 */
import { Gathered } from '../kit/gathered-bytes.ts';
import { limits } from '../config/limits.ts';

const headerBytes = 5;
/** SASL, its two answers, and the final success: each may cost a hash of a hundred thousand rounds. */
const authenticationsMax = 4;
/** The number of columns in queries of the catalog. */
const fieldsMax = 16;

export class ReplyGuard {
  readonly #forward: (messages: Buffer) => void;
  #gathered = new Gathered();
  #neededBytes = headerBytes;
  #skippedBytes = 0;
  #bytesLeft: number = limits.intoAnswerBytesMax;
  #messagesLeft: number = limits.intoAnswerMessagesMax;
  #authenticationsLeft = authenticationsMax;
  #rowsWanted = false;
  #entry: 'asked' | 'given' | 'refused' = 'asked';

  /** `forward` receives whole messages. */
  constructor(forward: (messages: Buffer) => void) {
    this.#forward = forward;
  }

  /** Rows are read only from the catalog: VALUES, which is used to test values, returns all of them. */
  asks(sql: string): void {
    this.#rowsWanted = sql.startsWith('select');
    this.#bytesLeft = limits.intoAnswerBytesMax + (this.#rowsWanted ? 0 : 8 * sql.length);
    this.#messagesLeft = limits.intoAnswerMessagesMax;
  }

  reads(chunk: Buffer): void {
    this.#bytesLeft -= chunk.length;
    if (this.#bytesLeft < 0) throw tooMuch();
    const passed = Math.min(this.#skippedBytes, chunk.length);
    this.#skippedBytes -= passed;
    this.#gathered.add(chunk.subarray(passed));
    if (this.#gathered.length < this.#neededBytes) return;
    const bytes = this.#gathered.done();
    this.#gathered = new Gathered();
    this.#neededBytes = headerBytes;
    let from = 0;
    let at = 0;
    while (at + headerBytes <= bytes.length) {
      const length = bytes.readUInt32BE(at + 1);
      const end = at + 1 + length;
      const missing = end - bytes.length;
      if (length < headerBytes - 1) throw malformed();
      if (missing > this.#bytesLeft) throw tooMuch();
      if (bytes[at] === code.dataRow && !this.#rowsWanted) {
        this.#give(bytes.subarray(from, at));
        this.#skippedBytes = Math.max(0, missing);
        at = from = Math.min(end, bytes.length);
      } else if (missing > 0) {
        this.#neededBytes = 1 + length;
        break;
      } else {
        this.#see(bytes[at] ?? 0, bytes.subarray(at + headerBytes, end));
        at = end;
      }
    }
    if (at < bytes.length) this.#gathered.add(Buffer.from(bytes.subarray(at)));
    this.#give(bytes.subarray(from, at));
  }

  #give(messages: Buffer): void {
    if (messages.length > 0) this.#forward(messages);
    // The server may keep the connection open, and nothing else would close it.
    if (this.#entry === 'refused') throw new Error('the server refused the connection');
  }

  #see(type: number, body: Buffer): void {
    this.#messagesLeft -= 1;
    if (type === code.authentication) this.#authenticationsLeft -= 1;
    if (this.#messagesLeft < 0 || this.#authenticationsLeft < 0) throw tooMuch();
    if ((type === code.error || type === code.notice) && !isList(body)) throw malformed();
    if (
      type === code.rowDescription &&
      this.#rowsWanted &&
      !(body.length > 1 && body.readUInt16BE() <= fieldsMax)
    )
      throw malformed();
    if (this.#entry === 'asked' && type === code.error) this.#entry = 'refused';
    if (this.#entry === 'asked' && type === code.readyForQuery) this.#entry = 'given';
  }
}

const code = {
  error: 0x45,
  notice: 0x4e,
  authentication: 0x52,
  readyForQuery: 0x5a,
  rowDescription: 0x54,
  dataRow: 0x44,
};

/** Fields, each a letter and a text that ends with a NUL, followed by a NUL: node-postgres searches for that final NUL without a bound. */
function isList(body: Buffer): boolean {
  let at = 0;
  while (at < body.length && body[at] !== 0) {
    const end = body.indexOf(0, at + 1);
    if (end < 0) return false;
    at = end + 1;
  }
  return at === body.length - 1;
}

const malformed = (): Error => new Error('the server sends what is no message of PostgreSQL');
const tooMuch = (): Error => new Error('the server sends more than was asked for');
