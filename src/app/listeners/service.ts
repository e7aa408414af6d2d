/**
 * What one listener process does: serves Headgate's webhooks, without the other doors, on an engine that already runs.
 * Takes an Assignment and a way to send messages to the main process; returns a service that takes connections, answers
 * questions and closes. Throws if it cannot start.
 */
import type { Socket } from 'node:net';
import { isSaid, tellsRequests, errorText } from '../../admin/log.ts';
import type { MetricFamily } from '../../admin/merged-metrics.ts';
import { requestLines } from '../../admin/request-lines.ts';
import { createMetrics } from '../../admin/metrics.ts';
import { openGuards } from '../door-guards.ts';
import { openTracer } from '../telemetry.ts';
import { attachEngine } from '../../engine/attached-engine.ts';
import { openPostgresEngine } from '../../engine/postgres.ts';
import type { Admission } from '../../access/admission.ts';
import { Closer } from '../../kit/closer.ts';
import { limits as allLimits, boundsOf } from '../../config/limits.ts';
import { openListener } from '../../listen/http.ts';
import type { Listener } from '../../listen/http.ts';
import { observers } from '../../observe/context.ts';
import type { Observe, Observation, TableName } from '../../observe/observations.ts';
import { loadParser } from '../../validate/expression.ts';
import { masterKeys } from '../../secrets/key-ring.ts';
import { openWebhookRooms, releaseDatabase } from '../wire-listener.ts';
import type { OpenWebhooks } from '../wire-listener.ts';
import type {
  ListenerAnswer,
  Assignment,
  FromListener,
  ListenerRequest,
  Report,
  SpoolNotice,
} from './messages.ts';
import { AcceptedRequests } from '../../console/accepted-requests.ts';
import { OutcomeTail } from '../../console/tail-source.ts';
import { Fence } from './fence.ts';
import { shareOf } from './resource-share.ts';
import { SpoolClient } from './spool-client.ts';

export interface ListenerService {
  /** Serves a connection; undefined: it was closed while it was being passed. */
  take(connection: Socket | undefined): void;
  /** Never rejects: what could not be done shows in what follows. */
  answer(question: ListenerRequest, getsOn: () => void): Promise<ListenerAnswer>;
  /** Counts requests that passed in another process. */
  charge: Admission['charge'];
  /** The answer to a fence that this process has asked for. */
  fenced(id: number, settled: boolean): void;
  spool(told: SpoolNotice): void;
}

export async function serveListener(
  { settings, reach, version, of, commitName }: Assignment,
  send: (message: FromListener, written?: () => void) => void,
): Promise<ListenerService> {
  const closer = new Closer();
  try {
    const saying = new ObservationSender(send, allLimits.listenerSaidMax);
    const metrics = createMetrics({
      lanes: () => deps?.lanes.depths() ?? [],
      load: () => deps?.listener.load ?? { connections: 0, bytesInFlight: 0 },
    });
    let deps: OpenWebhooks<Listener> | null = null;
    const said: Observe = (observation) => {
      if (isSaid(observation, settings.logLevel)) saying.say(observation);
    };
    const { logFormat: format, logLevel: level } = settings;
    const lines = tellsRequests({ format, level }) ? [requestLines((line) => saying.say(line))] : [];
    const held = new AcceptedRequests(allLimits, (table) => deps?.catalog.lastKnown(table));
    const outcomes = new OutcomeTail(Date.now, settings.rejectedRowsMax > 0, held.forget, held.eventOf);
    const observe = observers(said, ...lines, metrics.observe, outcomes.readers);
    await loadParser();
    const guards = await openGuards(settings, observe, closer, true);
    const engine = await (reach === null
      ? openPostgresEngine({ databaseUrl: settings.databaseUrl ?? '', observe })
      : attachEngine(reach, observe));
    closer.add('engine', () => engine.close());
    const tracer = openTracer(settings, version, observe, closer);
    const limits = shareOf(boundsOf(settings), of, settings.bodyBytesMax);
    const keys = masterKeys(settings);
    const openDoor: typeof openListener = (options) => openListener({ ...options, port: null });
    const fence = new Fence((id, left) => send({ kind: 'fence', id, left }));
    const link = new SpoolClient((it) => send({ kind: 'spool', said: it }));
    const oneOfSeveral = { fence, commitName, link };
    const ofOne = { retries: false, desk: null, hold: held.hold, refused: outcomes.stored };
    const opened = await openWebhookRooms(
      { settings, engine, keys, guards, limits, observe, tracer, openDoor, oneOfSeveral, ...ofOne },
      closer,
    );
    deps = opened;
    const { gate } = guards;
    const isLimited = settings.addressRate !== null || settings.tableRate !== null;
    if (gate !== null && isLimited) tellPassed(gate, send, closer);
    const unavailable = () => engine.unavailable ?? opened.catalog.unavailable;
    return {
      take: takeConnections(opened.listener, send),
      answer: answerQuestions(
        { ...opened, fence, held, outcomes, tail: tailTo(outcomes, send) },
        guards.reload,
        closer,
        async () => ({
          metrics: (await metrics.families()).map(finite),
          unavailable: unavailable(),
        }),
      ),
      charge: (passed) => gate?.charge(passed),
      fenced: (id, settled) => fence.answered(id, settled),
      spool: (told) => link.told(told),
    };
  } catch (error) {
    await closer.close();
    throw error;
  }
}

/** JSON has no NaN, which is a gauge's value before its first observation. */
function finite(family: MetricFamily): MetricFamily {
  return { ...family, values: family.values.filter(({ value }) => Number.isFinite(value)) };
}

/** Reports connections once a turn: the main process gives the next one to the process with the fewest. */
function takeConnections(listener: Listener, send: (message: FromListener) => void): ListenerService['take'] {
  let [taken, ended] = [0, 0];
  const count = (newTaken: number, newEnded: number) => {
    if (taken + ended === 0) {
      setImmediate(() => {
        send({ kind: 'connections', taken, ended });
        [taken, ended] = [0, 0];
      });
    }
    taken += newTaken;
    ended += newEnded;
  };
  return (connection) => {
    if (connection === undefined) return count(1, 1);
    count(1, 0);
    connection.once('close', () => count(0, 1));
    listener.take(connection);
  };
}

function answerQuestions(
  deps: OpenWebhooks<Listener> & {
    readonly fence: Fence;
    readonly held: AcceptedRequests;
    readonly outcomes: OutcomeTail;
    readonly tail: (on: boolean) => void;
  },
  reload: (() => Promise<void>) | null,
  closer: Closer,
  report: () => Promise<Report>,
): ListenerService['answer'] {
  return async (question, getsOn) => {
    switch (question.what) {
      case 'report':
        return { report: await report() };
      case 'held':
        return { held: deps.held.read(question.of) };
      case 'recall':
        return { lines: await deps.outcomes.recall(question.of) };
      case 'tail':
        deps.tail(question.on);
        break;
      case 'ensure':
        // The statement has found the catalog, or reports the failure to its client.
        await deps.catalog.ensure(question.database).catch(() => undefined);
        break;
      case 'release':
        await releaseDatabase(deps, question.database);
        break;
      case 'settle':
        await deps.fence.settle(question.left, deps.lanes, getsOn);
        break;
      case 'reload':
        await reload?.();
        break;
      case 'drain':
        await deps.listener.close();
        await closer.close();
        break;
    }
    return {};
  };
}

/** Starts and stops reporting outcomes; starting twice has no effect. */
function tailTo(outcomes: OutcomeTail, send: (message: FromListener) => void): (on: boolean) => void {
  let end: (() => void) | null = null;
  return (on) => {
    if (on) end ??= outcomes.watch((batch) => send({ kind: 'tail', batch }));
    else {
      end?.();
      end = null;
    }
  };
}

function tellPassed(gate: Admission, send: (message: FromListener) => void, closer: Closer): void {
  const timer = setInterval(() => {
    const passed = gate.passed();
    if (passed !== null) send({ kind: 'passed', passed });
  }, allLimits.rateToldMs);
  closer.add('rates', () => clearInterval(timer));
}

/**
 * Sends observations of any room to the main process as plain values, those of one turn together. While an earlier message is unwritten they wait, a bounded
 * number of them; those left out are counted and reported.
 */
export class ObservationSender {
  readonly #send: (message: FromListener, written: () => void) => void;
  readonly #waitingMax: number;
  #waiting: Observation[] = [];
  #leftOut = 0;
  /** The end of the turn, or a message, is pending. */
  #busy = false;

  constructor(send: (message: FromListener, written: () => void) => void, waitingMax: number) {
    this.#send = send;
    this.#waitingMax = waitingMax;
  }

  say(observation: Observation): void {
    if (this.#waiting.length >= this.#waitingMax) this.#leftOut += 1;
    else this.#waiting.push(plain(observation));
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    const observations = this.#waiting;
    this.#waiting = [];
    if (this.#leftOut > 0) {
      observations.push({ kind: 'listener.said', line: `${this.#leftOut} observations were left out` });
      this.#leftOut = 0;
    }
    this.#send({ kind: 'said', observations }, () => {
      if (this.#waiting.length > 0) setImmediate(() => this.#flush());
      else this.#busy = false;
    });
  }
}

/** Rooms pass their own table objects, which contain functions, and thrown values, of which the log's text is kept. */
function plain(observation: Observation): Observation {
  const copy: Record<string, unknown> = { ...observation };
  if (copy['table'] !== undefined && copy['table'] !== null) {
    const { database, schema, table } = copy['table'] as TableName;
    copy['table'] = { database, schema, table };
  }
  if ('error' in copy) copy['error'] = errorText(copy['error']);
  return copy as unknown as Observation;
}
