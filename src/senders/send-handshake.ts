/**
 * Asks the sender's questions: takes a sender and its secrets, returns what was asked and how the sender would judge
 * each answer. Refuses (SendError) a sender that asks nothing. Touches the network through the client that it is given.
 */
import { withHeaders } from './send-changes.ts';
import type { SendClient } from './send-client.ts';
import { SendError } from './send-options.ts';
import type { HandshakeReply, HandshakeQuery, Asking, HandshakeQuestion, Sender } from './sender.ts';
import { signedRequest } from './senders.ts';
import type { SignedRequest } from './senders.ts';

/** What is needed to ask a sender's questions. */
export interface HandshakeSender {
  readonly sender: Sender;
  /** The URL as the sender calls it, and the URL that the request is sent to. */
  readonly signedUrl: string;
  readonly url: string;
  readonly signingKey: string;
  readonly answerKey: string;
  readonly headers: ReadonlyMap<string, string>;
}

export interface HandshakeRound {
  readonly question: HandshakeQuestion;
  readonly asked: HandshakeQuery;
  readonly asking: Asking;
}

/** A request that was signed for one URL is sent to another; what the sender added to the query is added there, too. */
export function moved<T extends HandshakeQuery>(sent: T, signedUrl: string, url: string): T {
  if (sent.url === signedUrl) return { ...sent, url };
  if (sent.url.startsWith(signedUrl)) {
    // Unchanged: `%20` and `+` mean the same blank, but are different texts.
    const added = sent.url.slice(signedUrl.length + 1);
    return { ...sent, url: `${url}${url.includes('?') ? '&' : '?'}${added}` };
  }
  const target = new URL(url);
  for (const [name, value] of new URL(sent.url).searchParams) target.searchParams.set(name, value);
  return { ...sent, url: target.href };
}

/** The sender's questions, ready to be sent. `challenge`: a given one, instead of one derived from the id. */
export function roundsOf(
  asker: HandshakeSender,
  id: string,
  nowMs: number,
  challenge?: string,
): readonly HandshakeRound[] {
  const { sender, signedUrl, url, signingKey, answerKey, headers } = asker;
  const signed: Asking['signed'] = (body, { method = 'POST', url = signedUrl } = {}) =>
    signedRequest(sender, { method, url, nowMs, signingKey, id, body: Buffer.from(body) });
  return sender.questions.map((question) => {
    const asking = {
      url: signedUrl,
      nowMs,
      signingKey,
      answerKey,
      id,
      challenge: challenge ?? question.challenge(id),
      signed,
    };
    const asked: SignedRequest = moved(question.ask(asking), signedUrl, url);
    return { question, asking, asked: withHeaders(asked, headers) };
  });
}

export function refuseWithoutQuestions(
  { name, id, questions, handshake, answerSecret }: Sender,
  answerKey: string,
): void {
  if (questions.length === 0) {
    throw new SendError(
      handshake === null
        ? `--handshake: ${name} asks nothing before it delivers`
        : `--handshake: ${name} waits until a URL of its own is opened, which this command cannot serve; see docs/senders/${id}.md`,
    );
  }
  if (answerSecret !== null && answerKey === '')
    throw new SendError(`--handshake: ${name} needs --answer-secret: it is ${answerSecret.what}`);
}

/** Why the sender would not accept the answer; null: it would. */
export function verdict({ question, asking }: HandshakeRound, answer: HandshakeReply): string | null {
  const wrong = question.judge(answer, asking);
  if (wrong !== null) return wrong;
  return answer.ms <= question.withinMs
    ? null
    : `the answer took ${Math.round(answer.ms)} ms, but must arrive within ${question.withinMs} ms`;
}

/** Asks one question; rejects as `SendClient.send` does. */
export async function askOne(
  round: HandshakeRound,
  client: SendClient,
  elapsed: () => number,
  signal: AbortSignal,
): Promise<{ readonly answer: HandshakeReply; readonly wrong: string | null }> {
  const begun = elapsed();
  const answer = { ...(await client.send(round.asked, signal)), ms: elapsed() - begun };
  return { answer, wrong: verdict(round, answer) };
}

export function toldOf(
  { question, asked }: HandshakeRound,
  { name }: Sender,
  answer: HandshakeReply,
  wrong: string | null,
): string {
  const size = `${answer.bytes} bytes, ${Math.round(answer.ms)} ms`;
  const body = answer.body === '' ? '' : `${answer.body}${answer.body.endsWith('\n') ? '' : '\n'}`;
  return `${name} asks ${question.what}: ${asked.method} ${asked.url}\nHTTP ${answer.status} (${size})\n${body}${
    wrong === null ? 'right' : `wrong: ${wrong}`
  }\n`;
}
