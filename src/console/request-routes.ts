/**
 * What the console's page shows of requests: the list of all, one of them, and what an accepted one held. Takes requests whose Host and origin were
 * checked; answers in JSON. Refuses with `login_required`, `malformed_request`, `not_found`, and with the engine's own errors.
 */
import { Refused } from '../errors/refusals.ts';
import type { HeldQuestion, HeldRequest, TailSource } from '../observe/tail.ts';
import { readHeld, readList, readObject } from './body.ts';
import { writeJson } from './headers.ts';
import { findRequest, listRequests } from './request-list.ts';
import type { RequestSources } from './request-list.ts';
import { goneOf } from './request-sessions.ts';
import type { Asked, RequestSessions } from './request-sessions.ts';
import { ownedTable } from './statements.ts';
import { KnownRights } from './stream.ts';

/** What other rooms know of requests. */
export interface RequestAnswers {
  /** Why no request can be accepted; null: they can. */
  ready(): string | null;
  /** What an accepted request held; null: none has that name. Access has been checked before. */
  held(of: HeldQuestion): Promise<HeldRequest | null>;
}

interface RequestDeps {
  readonly tail: TailSource;
  readonly answers: RequestAnswers;
  readonly clock: () => number;
}

export class RequestRoutes {
  readonly #deps: RequestDeps;
  readonly #requests: RequestSessions;
  readonly #rights: KnownRights;

  constructor(deps: RequestDeps, requests: RequestSessions) {
    this.#deps = deps;
    this.#requests = requests;
    this.#rights = new KnownRights(deps.clock);
  }

  /**
   * Shown to roles that may read its table and own it (or are members of the owner); the owner's key sees all, as in the
   * tail.
   */
  async held({ request, response }: Asked): Promise<void> {
    const { held: runner, who } = this.#requests.session(request);
    const of = readHeld(await readObject(request));
    const none = new Refused(
      'not_found',
      'nothing is held of this request any more, or it is not of a table of yours',
    );
    let question: HeldQuestion = { ...of, oid: null };
    if (who.kind === 'role') {
      const sql = ownedTable(of);
      const run = () =>
        runner?.run({ sql, write: false, own: true }, goneOf(response)) ?? Promise.resolve(null);
      const answer = await this.#requests.run({ request, response }, run);
      if (response.headersSent) return;
      const [oid = null] = answer?.tables[0]?.rows[0] ?? [];
      if (oid === null) throw none;
      question = { ...of, database: who.database, oid: Number(oid) };
    }
    const role = who.kind === 'role' ? who.user : '';
    const found = await this.#requests.running.run(role, () => this.#deps.answers.held(question));
    if (found === null) throw none;
    writeJson(response, 200, found);
  }

  async list(asked: Asked): Promise<void> {
    const deps = this.#listDeps(asked);
    const call = readList(await readObject(asked.request));
    const answer = await this.#requests.run(asked, () => listRequests(call, deps));
    if (answer !== null) writeJson(asked.response, 200, answer);
  }

  async find(asked: Asked): Promise<void> {
    const deps = this.#listDeps(asked);
    const { id } = await readObject(asked.request);
    const found = await this.#requests.run(asked, () => findRequest(String(id), deps));
    if (asked.response.headersSent) return;
    if (found === null)
      throw new Refused(
        'not_found',
        'this request is not remembered any more, or it is not of a table of yours',
      );
    writeJson(asked.response, 200, found);
  }

  #listDeps({ request, response }: Asked): RequestSources {
    const { runner, who } = this.#requests.ofRole(request);
    const gone = goneOf(response);
    const { tail, answers } = this.#deps;
    // A frozen database would hold up what is remembered.
    const isAway = answers.ready() !== null;
    return {
      tail,
      ask: async (call) => (isAway ? null : ((await runner.run(call, gone)).tables.at(-1) ?? null)),
      rights: () => this.#rights.of(runner, who.database, gone, isAway),
    };
  }
}
