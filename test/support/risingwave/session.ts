/**
 * One client of the stand-in: RisingWave's protocol as in src/utils/pgwire/src/pg_protocol.rs. Messages are handled one after the other;
 * each statement is committed on its own, whatever surrounds it; ReadyForQuery always reports idle; errors have no position.
 */
import type { Socket } from 'node:net';
import { int32, message, zeroEnded } from '../../../src/kit/postgres-message.ts';
import { splitStatements } from '../../../src/ddl/scanner.ts';
import type { Backend, Message } from './backend.ts';
import { Messages } from './backend.ts';
import { planOf, plansOf } from './statements.ts';
import type { Plan } from './statements.ts';
import type { Struct } from './tables.ts';
import { errorResponse, failed, noticeResponse, notParsed, serverVersion } from './words.ts';

/** What the sessions of a server share. */
export interface Shared {
  readonly ownOids: () => Promise<ReadonlyMap<number, number>>;
  readonly makeStructs: (found: readonly Struct[]) => Promise<void>;
  /** Called for each statement; a returned fault is carried out instead. */
  readonly said: (said: SaidStatement) => Fault | null;
  /** Resolves once everything written before is in a checkpoint. */
  readonly checkpoint: () => Promise<void>;
}

export interface SaidStatement {
  /** `insert`, `flush`, `set`, … */
  readonly word: string;
  /** Its answer waits for a checkpoint. */
  readonly persistent: boolean;
}

/** `cut`: run, then the connection ends; `hang`: not run, and never answered; `fail`: not run, and refused with these causes. */
export type Fault =
  | { readonly kind: 'cut' | 'hang' }
  | { readonly kind: 'fail'; readonly causes: readonly string[] };

const ready = message('Z', Buffer.from('I'));
const complete = (tag: string): Buffer => message('C', zeroEnded(tag));
const status = (name: string, value: string): Buffer => message('S', zeroEnded(name), zeroEnded(value));

export class Session {
  readonly #socket: Socket;
  readonly #backend: Backend;
  readonly #shared: Shared;
  readonly #read = new Messages();
  readonly #parameters = new Map<string, string>();
  /** Statements of the extended protocol by name. */
  readonly #prepared = new Map<string, Plan>();
  #portal: Plan | null = null;
  #ignoring = false;
  #work: Promise<void> = Promise.resolve();

  constructor(socket: Socket, backend: Backend, shared: Shared) {
    this.#socket = socket;
    this.#backend = backend;
    this.#shared = shared;
  }

  /** Called after the startup packet; `rest`: the bytes that came with it. */
  start(applicationName: string | undefined, rest: Buffer): void {
    // process_startup_msg: exactly these.
    this.#write(
      message('R', int32(0)),
      message('K', int32(this.#backend.processId), int32(this.#backend.secretKey)),
      status('TimeZone', 'UTC'),
      status('client_encoding', 'UTF8'),
      status('standard_conforming_strings', 'on'),
      status('server_version', serverVersion),
      ...(applicationName === undefined ? [] : [status('application_name', applicationName)]),
      ready,
    );
    this.#socket.on('data', (chunk: Buffer) => this.#take(chunk));
    this.#take(rest);
  }

  #take(chunk: Buffer): void {
    for (const it of this.#read.push(chunk)) {
      this.#work = this.#work.then(() => this.#handle(it)).catch(() => this.#end());
    }
  }

  #write(...bytes: readonly Buffer[]): void {
    this.#socket.write(Buffer.concat(bytes));
  }

  #end(): void {
    this.#socket.destroy();
    this.#backend.close();
  }

  async #handle({ type, bytes }: Message): Promise<void> {
    if (this.#ignoring && type !== 'S') return;
    const body = bytes.subarray(5);
    switch (type) {
      case 'Q':
        return this.#simple(body.toString('latin1', 0, body.length - 1));
      case 'P':
        return this.#parse(body);
      case 'B':
        return this.#bind(body);
      case 'E':
        return this.#execute(bytes);
      case 'D':
        return this.#describe(bytes);
      case 'C': {
        const [name] = texts(body.subarray(1), 1);
        if (body[0] === 0x53) this.#prepared.delete(name ?? '');
        return this.#relay([bytes, message('H')], '3', 'execute the statement');
      }
      case 'S':
        this.#ignoring = false;
        this.#backend.write(bytes);
        await this.#until('Z');
        return this.#write(ready);
      case 'H':
        return;
      case 'X':
        return this.#end();
      default:
        // FeMessage::read_body: "Unsupported tag of regular message", which ends the connection: COPY's d, c and f, and F.
        return this.#end();
    }
  }

  async #simple(text: string): Promise<void> {
    const plans = plansOf(text);
    const broken = plans.find((plan) => plan.kind === 'unparsed');
    if (plans.length === 0) this.#write(message('I'));
    // inner_process_query_msg: everything is parsed first, then the statements run separately.
    if (broken !== undefined) this.#write(errorResponse(failed('run the query', [broken.message])));
    else for (const plan of plans) if (!(await this.#run(plan, 'run the query'))) break;
    this.#write(ready);
  }

  /** Returns whether it succeeded. */
  async #run(plan: Plan, how: 'run the query' | 'execute the statement'): Promise<boolean> {
    const sql = plan.kind === 'run' ? plan.sql : '';
    const word =
      plan.kind === 'run' ? plan.word : plan.kind === 'answered' ? plan.tag.toLowerCase() : plan.kind;
    const persistent = this.#waits();
    const fault = this.#shared.said({ word, persistent });
    if (fault?.kind === 'hang') await new Promise(() => undefined);
    if (fault?.kind === 'fail') {
      this.#write(errorResponse(failed(how, fault.causes)));
      return false;
    }
    switch (plan.kind) {
      case 'unparsed':
      case 'refused':
        this.#write(errorResponse(failed(how, [plan.message])));
        return false;
      case 'answered':
        if (plan.tag === 'FLUSH') await this.#shared.checkpoint();
        if (plan.notice !== undefined) this.#write(noticeResponse(plan.notice));
        this.#write(complete(plan.tag));
        return true;
      case 'set':
        this.#parameters.set(plan.name.replace(/^rw_/, ''), plan.value);
        this.#write(complete('SET_VARIABLE'));
        return true;
      case 'run':
        await this.#shared.makeStructs(plan.structs);
        this.#backend.write(message('Q', Buffer.from(`${sql}\0`, 'latin1')));
        return this.#answers('Z', how, plan, async () => {
          if (fault !== null) return this.#end();
          if (/^(?:insert|update|delete)$/.test(word) && persistent) await this.#shared.checkpoint();
        });
    }
  }

  #waits(): boolean {
    return ['dml_wait_persistence', 'implicit_flush'].some((it) =>
      /^(?:true|on|1)$/.test(this.#parameters.get(it) ?? ''),
    );
  }

  async #parse(body: Buffer): Promise<void> {
    const [name = '', text = ''] = texts(body, 2);
    const refuse = (why: string): void => {
      this.#ignoring = true;
      this.#write(errorResponse(failed('prepare the statement', [why])));
    };
    // inner_process_parse_msg
    if (name !== '' && this.#prepared.has(name)) return refuse('Duplicated statement name');
    const statements = splitStatements(text, true);
    if (statements.length > 1) return refuse('Only one statement is allowed in extended query mode');
    const [statement] = statements;
    const plan: Plan = statement === undefined ? { kind: 'answered', tag: '' } : planOf(text, statement);
    if (plan.kind === 'unparsed' || plan.kind === 'refused') return refuse(plan.message);
    this.#prepared.set(name, plan);
    if (plan.kind !== 'run') return this.#write(message('1'));
    await this.#shared.makeStructs(plan.structs);
    const types = body.subarray(zeroAt(body, zeroAt(body, 0)));
    const rest = [zeroEnded(name), Buffer.from(`${plan.sql}\0`, 'latin1'), types];
    return this.#relay(
      [
        ...(name === '' ? [] : [message('C', Buffer.from('S'), zeroEnded(name))]),
        message('P', ...rest),
        message('H'),
      ],
      '1',
      'prepare the statement',
    );
  }

  async #bind(body: Buffer): Promise<void> {
    const [, name = ''] = texts(body, 2);
    let at = zeroAt(body, zeroAt(body, 0));
    const formats = body.readInt16BE(at);
    at += 2 + 2 * formats;
    // FeBindMessage::parse reads the number as i16: beyond 32,767 the next field is misread.
    if (body.readInt16BE(at) < 0) return this.#end();
    this.#portal = this.#prepared.get(name) ?? null;
    if (this.#portal?.kind !== 'run') return this.#write(message('2'));
    return this.#relay([message('B', body), message('H')], '2', 'execute the statement');
  }

  async #execute(bytes: Buffer): Promise<void> {
    const plan = this.#portal;
    if (plan === null || plan.kind !== 'run')
      return void (plan !== null && (await this.#run(plan, 'execute the statement')));
    const persistent = this.#waits();
    this.#shared.said({ word: plan.word, persistent });
    // Each statement is committed on its own, even if the client has sent several before its Sync.
    this.#backend.write(Buffer.concat([bytes, message('S')]));
    if (
      !(await this.#answers('Z', 'execute the statement', plan, () =>
        persistent ? this.#shared.checkpoint() : Promise.resolve(),
      ))
    )
      this.#ignoring = true;
  }

  async #describe(bytes: Buffer): Promise<void> {
    const [name = ''] = texts(bytes.subarray(6), 1);
    const plan = bytes[5] === 0x53 ? this.#prepared.get(name) : this.#portal;
    if (plan?.kind === 'run')
      return this.#relay([bytes, message('H')], bytes[5] === 0x53 ? 'Tn ' : 'Tn', 'execute the statement');
    this.#write(...(bytes[5] === 0x53 ? [message('t', Buffer.alloc(2))] : []), message('n'));
  }

  /** Sends it, and passes on the answers up to a message of one of these types. */
  async #relay(sent: readonly Buffer[], last: string, how: Parameters<typeof failed>[0]): Promise<void> {
    this.#backend.write(Buffer.concat(sent));
    for (;;) {
      const it = await this.#next();
      if (it.type === 'E') {
        this.#ignoring = true;
        return this.#write(translated(it, how));
      }
      // The answer to a Close before a Parse.
      if (it.type === '3' && last === '1') continue;
      this.#write(await this.#shown(it));
      if (last.includes(it.type)) return;
    }
  }

  /** Passes on the answers of one statement. Returns whether it succeeded. */
  async #answers(
    last: string,
    how: Parameters<typeof failed>[0],
    plan: Plan & { kind: 'run' },
    done: () => Promise<void> | void,
  ): Promise<boolean> {
    let succeeded = true;
    const tags: Buffer[] = [];
    for (;;) {
      const it = await this.#next();
      if (it.type === last) break;
      if (it.type === 'E') {
        succeeded = false;
        this.#write(translated(it, how));
      } else if (it.type === 'C') tags.push(it.bytes);
      else if (it.type === 'G' || it.type === 'W') return this.#endFalse();
      // What the stand-in has added to a CREATE TABLE returns rows, too.
      else if (!'SKN'.includes(it.type) && plan.word !== 'create table') this.#write(await this.#shown(it));
    }
    if (!succeeded) return false;
    await done();
    const [tag] = tags;
    // Debug of StatementType (src/utils/pgwire/src/pg_response.rs): CREATE_TABLE.
    if (tag !== undefined)
      this.#write(
        complete(tag.toString('latin1', 5, tag.length - 1).replaceAll(/(?<=[A-Z]) (?=[A-Z])/g, '_')),
      );
    return true;
  }

  #endFalse(): false {
    this.#end();
    return false;
  }

  async #next(): Promise<Message> {
    const it = await this.#backend.next();
    if (it === null) throw new Error('PostgreSQL has left');
    return it;
  }

  async #until(type: string): Promise<void> {
    while ((await this.#next()).type !== type);
  }

  /** Replaces type numbers by RisingWave's. */
  async #shown({ type, bytes }: Message): Promise<Buffer> {
    if (type !== 'T') return bytes;
    const own = await this.#shared.ownOids();
    let at = 7;
    for (let left = bytes.readInt16BE(5); left > 0; left--) {
      at = zeroAt(bytes, at) + 6;
      bytes.writeUInt32BE(own.get(bytes.readUInt32BE(at)) ?? bytes.readUInt32BE(at), at);
      at += 12;
    }
    return bytes;
  }
}

/** Without position, detail or hint, and nearly always as XX000. */
function translated({ bytes }: Message, how: Parameters<typeof failed>[0]): Buffer {
  const fields = new Map<string, string>();
  for (let at = 5; bytes[at] !== 0;) {
    const end = zeroAt(bytes, at + 1);
    fields.set(String.fromCharCode(bytes[at] ?? 0), bytes.toString('utf8', at + 1, end - 1));
    at = end;
  }
  const [code = '', text = ''] = [fields.get('C'), fields.get('M')];
  if (code === '42601') return errorResponse(failed(how, [notParsed('end of statement', text)]));
  // CatalogError::NotFound and Duplicated, src/frontend/src/catalog/mod.rs
  if (code === '42P01')
    return errorResponse(
      failed(
        how,
        ['Catalog error', text.replace(/^relation "(.*)" does not exist$/, 'table or source not found: $1')],
        '42704',
      ),
    );
  if (code === '42P07') return errorResponse(failed(how, ['Catalog error', text], '42710'));
  if (code === '42501') return errorResponse(failed(how, [`Permission denied: ${text}`]));
  if (code.startsWith('42')) return errorResponse(failed(how, [`Bind error: ${text}`]));
  return errorResponse(failed(how, ['Expr error', 'error while evaluating expression', text]));
}

/** After the zero byte that ends the text at `from`. */
function zeroAt(bytes: Buffer, from: number): number {
  return bytes.indexOf(0, from) + 1;
}

function texts(body: Buffer, count: number): string[] {
  const found: string[] = [];
  for (let at = 0; found.length < count;) {
    const end = zeroAt(body, at);
    found.push(body.toString('latin1', at, end - 1));
    at = end;
  }
  return found;
}
