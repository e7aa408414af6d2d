/**
 * Answers to requests that were refused, made once for each code. Takes refusals; returns replies ready to be written (reply.ts); touches
 * nothing. Bodies are ASCII (other characters are escaped), so one char is one byte.
 */
import type { Refusal, RefusalCode } from '../errors/refusals.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import { reply } from './reply.ts';
import type { WebhookReply } from './reply.ts';

function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Headers that HTTP requires in answers of that kind, names and values in turn. */
const headersOf: { readonly [code in RefusalCode]?: readonly string[] } = {
  encoding_unsupported: ['Accept-Encoding', 'gzip, deflate, br'],
  upgrade_required: ['Upgrade', 'websocket', 'Connection', 'Upgrade', 'Sec-WebSocket-Version', '13'],
};

function refusalReply(it: Refusal, extra: string[] = []): WebhookReply {
  const body = asciiJson({ error: it.message, code: it.code });
  const allow = it.code === 'method_not_allowed' ? ['Allow', it.allow ?? 'POST'] : [];
  return reply(refusals[it.code].status, it.code, 0, body, [
    ...allow,
    ...(headersOf[it.code] ?? []),
    ...extra,
  ]);
}

/** The answer to a request on which Headgate itself failed. */
export function failureReply(requestId: string): WebhookReply {
  const { code, message } = refusal('internal');
  return reply(500, code, 0, asciiJson({ error: message, code, request_id: requestId }));
}

/** Returns the reply to a refusal. A 503, and the like, says when to come back, spread so that senders do not all return at once. */
export type RefusalReplies = (it: Refusal) => WebhookReply;

export function createRefusalReplies(random: () => number, retryAfterSecondsMax: number): RefusalReplies {
  const prebuilt = new Map<Refusal, readonly WebhookReply[]>();
  const variants = (it: Refusal): readonly WebhookReply[] =>
    it.retryAfterSeconds !== undefined
      ? [refusalReply(it, ['Retry-After', String(it.retryAfterSeconds)])]
      : refusals[it.code].status === 503 || it.code === 'sender_overloaded'
        ? Array.from({ length: retryAfterSecondsMax }, (_, i) =>
            refusalReply(it, ['Retry-After', String(i + 1)]),
          )
        : [refusalReply(it)];
  for (const code of Object.keys(refusals) as RefusalCode[])
    prebuilt.set(refusal(code), variants(refusal(code)));
  return (it) => {
    const choices = prebuilt.get(it) ?? variants(it);
    return choices[Math.floor(random() * choices.length)] ?? refusalReply(it);
  };
}
