/**
 * What the console's page does with a sender: secrets in its form, the check that is its own, a signature that was computed by hand, and requests to a
 * table of this Headgate, made up or repeated. Takes requests whose Host and origin were checked; answers in JSON. Refuses with `login_required`,
 * `malformed_request`, `replay_impossible`, and with the engine's own errors. Nothing of a secret is kept.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { longWork } from '../kit/time-slices.ts';
import type { HmacTrial, ReplayRequest, SenderCheck, SenderName, TestAnswer, TestRequest } from './api.ts';
import { isText, malformed, readObject } from './body.ts';
import type { BodyMembers } from './body.ts';
import { isHmacForm } from './custom-hmac.ts';
import { writeJson } from './headers.ts';
import { goneOf } from './request-sessions.ts';
import type { Asked, RequestSessions } from './request-sessions.ts';
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

  constructor(answers: SenderAnswers, requests: RequestSessions) {
    this.#answers = answers;
    this.#requests = requests;
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
      return this.#requests.running.run(who.user, () => send({ user, database: who.database }));
    });
    if (answer !== null) writeJson(response, 200, answer);
  }
}

/** The checks of tables, as the catalog has them. */
function readChecks({ checks }: BodyMembers): readonly SenderCheck[] {
  if (!Array.isArray(checks) || checks.length > limits.consoleChecksMax)
    throw malformed(`checks is a list of at most ${limits.consoleChecksMax}`);
  return (checks as unknown[]).map((it) => {
    const { expression, secrets } = (it ?? {}) as BodyMembers;
    if (
      typeof expression !== 'string' ||
      !Array.isArray(secrets) ||
      secrets.length > limits.consoleCheckSecretsMax
    )
      throw malformed('a check has expression and secrets');
    return { expression, secrets: (secrets as unknown[]).map(String) };
  });
}

function readTest({ sender, secret, schema, table }: BodyMembers): Omit<TestRequest, 'database'> {
  if (typeof sender !== 'string' || typeof secret !== 'string')
    throw malformed('a test has sender and secret');
  if (!isText(schema) || !isText(table)) throw malformed('a test has schema and table');
  return { sender, secret, schema, table };
}

/** A form of the wizard, and a request to try it on. */
function readTrial({ form, secret, request }: BodyMembers): HmacTrial {
  if (!isHmacForm(form) || !isText(secret)) throw malformed('a check to try has form and secret');
  const { headers, body } = (request ?? {}) as BodyMembers;
  if (typeof body !== 'string') throw malformed('a request to try has headers and body');
  return { form, secret, request: { headers: readHeaders(headers), body } };
}

function readReplay(given: BodyMembers): ReplayRequest {
  const { schema, table, method, query, headers, body, sign, checked, vouched = '' } = given;
  if (!isText(schema) || !isText(table)) throw malformed('a request to send has schema and table');
  if (typeof method !== 'string' || !/^[A-Z]{1,16}$/.test(method)) throw malformed('the method is no method');
  if (typeof query !== 'string' || !/^(\?[\x21-\x7e]*)?$/.test(query) || query.includes('#'))
    throw malformed('the query begins with ? and holds visible ASCII');
  if (typeof body !== 'string' || typeof sign !== 'boolean')
    throw malformed('a request to send has body and sign');
  if (typeof checked !== 'boolean' || typeof vouched !== 'string')
    throw malformed('a request to send has checked');
  // With a signature of its own Headgate would store what anybody may have sent.
  if (sign && !checked && vouched !== table)
    throw new Refused(
      'replay_impossible',
      `no check has accepted this request: to sign it, type the name of the table, ${table}`,
    );
  return { schema, table, method, query, headers: readHeaders(headers), body, sign, checked, vouched };
}

function readHeaders(headers: unknown): ReplayRequest['headers'] {
  if (!Array.isArray(headers) || headers.length > limits.consoleReplayHeadersMax)
    throw malformed(`a request to send has at most ${limits.consoleReplayHeadersMax} headers`);
  return (headers as unknown[]).map((pair) => {
    const [name, value] = Array.isArray(pair) ? (pair as unknown[]) : [];
    if (typeof name !== 'string' || !/^[\w!#$%&'*+.^`|~-]{1,200}$/.test(name) || typeof value !== 'string')
      throw malformed('a header is a name and a value');
    // A header value has one character per byte, and no line break.
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw malformed(`header ${name} holds what no header may`);
    return [name, value] as const;
  });
}
