/**
 * What the console's page does with a sender: secrets in its form, the check that is its own, a signature that was computed by hand, and requests to a
 * table of this Headgate, made up or repeated. Takes requests whose Host and origin were checked; answers in JSON. Refuses with `login_required`,
 * `malformed_request`, and with the engine's own errors. Nothing of a secret is kept.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { longWork } from '../kit/time-slices.ts';
import type { ReplayRequest, SenderCheck, SenderName, TestAnswer, TestRequest } from './api.ts';
import { readChecks, readObject, readReplay, readTest, readTrial } from './body.ts';
import { writeJson } from './headers.ts';
import { goneOf } from './request-sessions.ts';
import type { Asked, RequestSessions } from './request-sessions.ts';
import type { RunningStatements } from './sql.ts';
import { tryHmac, variantsMax } from './try-hmac.ts';

/** What other rooms know of senders. */
export interface SenderAnswers {
  /** A secret in this sender's form; null: it cannot be generated, or no such sender exists. */
  makeSecret(sender: string, placeholder: boolean): string | null;
  /** The sender that has this check; null: none. */
  whichSender(check: SenderCheck): SenderName | null;
  /** What a secret of this sender must be, if this is none; null: it may be one. */
  wrongSecret(sender: string, secret: string): string | null;
  /**
   * Sends a request signed as this sender does ('': plain JSON) to a table of this Headgate; null: no such sender exists. Throws as `replay`
   * does, if it is to be signed with the table's own secret.
   */
  send(
    test: TestRequest,
    who: { readonly user: string; readonly database: string },
  ): Promise<TestAnswer | null>;
  /** Sends a request, signed anew if requested, to a table that this role owns; throws Refused, or SqlFailure. */
  replay(
    replay: ReplayRequest,
    who: { readonly user: string; readonly database: string },
  ): Promise<TestAnswer>;
}

export class SenderRoutes {
  readonly #answers: SenderAnswers;
  readonly #requests: RequestSessions;
  /** Of all sessions. */
  readonly #running: RunningStatements;

  constructor(answers: SenderAnswers, requests: RequestSessions, running: RunningStatements) {
    this.#answers = answers;
    this.#requests = requests;
    this.#running = running;
  }

  async makeSecret({ request, response }: Asked): Promise<void> {
    this.#requests.ofRole(request);
    const { sender, placeholder = false } = await readObject(request);
    const secret = this.#answers.makeSecret(String(sender), placeholder === true);
    if (secret === null) throw new Refused('malformed_request', 'a secret of this sender cannot be made up');
    writeJson(response, 200, { secret });
  }

  /** Whether a secret looks like one of this sender; it is not kept. */
  async secretForm({ request, response }: Asked): Promise<void> {
    this.#requests.ofRole(request);
    const { sender, secret } = await readObject(request);
    if (typeof sender !== 'string' || typeof secret !== 'string')
      throw new Refused('malformed_request', 'a secret to look at has sender and secret');
    writeJson(response, 200, { mustBe: this.#answers.wrongSecret(sender, secret) });
  }

  async whichSender({ request, response }: Asked): Promise<void> {
    this.#requests.ofRole(request);
    const checks = readChecks(await readObject(request));
    const found: (SenderName | null)[] = [];
    for (const it of checks) {
      await longWork.turn(it.expression.length);
      found.push(this.#answers.whichSender(it));
    }
    writeJson(response, 200, found);
  }

  async tryHmac({ request, response }: Asked): Promise<void> {
    this.#requests.ofRole(request);
    const trial = readTrial(await readObject(request, limits.consoleTrialBytesMax));
    await longWork.turn(variantsMax * trial.request.body.length);
    writeJson(response, 200, tryHmac(trial, Date.now()));
  }

  /** To a table of the session's database. */
  async send({ request, response }: Asked): Promise<void> {
    const test = readTest(await readObject(request));
    await this.#asUser({ request, response }, async (who) => {
      const answer = await this.#answers.send({ ...test, database: who.database }, who);
      if (answer === null)
        throw new Refused('malformed_request', 'this request cannot be made with this secret');
      return answer;
    });
  }

  async replay({ request, response }: Asked): Promise<void> {
    const replay = readReplay(await readObject(request));
    await this.#asUser({ request, response }, (who) => this.#answers.replay(replay, who));
  }

  /** Headgate's own connection signs: the role must still be able to log in, and not be another of its name. */
  async #asUser(
    { request, response }: Asked,
    send: (who: { readonly user: string; readonly database: string }) => Promise<TestAnswer>,
  ): Promise<void> {
    const { who, runner } = this.#requests.ofRole(request);
    const answer = await this.#requests.run({ request, response }, async () => {
      const sql = 'SELECT current_user';
      const { tables } = await runner.run({ sql, write: false, own: true }, goneOf(response));
      const user = tables[0]?.rows[0]?.[0] ?? '';
      return this.#running.run(who.user, () => send({ user, database: who.database }));
    });
    if (answer !== null) writeJson(response, 200, answer);
  }
}
