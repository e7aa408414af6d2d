/**
 * Answers to requests that only ask: handshakes of senders, and preflights of browsers. Takes answers that tables' owners have chosen; returns replies ready to
 * be written (reply.ts); touches nothing.
 */
import type { HttpReply } from '../http/plain-answer.ts';
import type { HandshakeAnswer } from '../types/answers.ts';
import { contentHeaders } from './reply.ts';
import type { WebhookReply } from './reply.ts';

/** For a browser that was sent here: it does nothing with the answer. */
const harmless = [
  'X-Content-Type-Options',
  'nosniff',
  'Content-Security-Policy',
  "default-src 'none'; sandbox",
  'Cache-Control',
  'no-store',
  'Referrer-Policy',
  'no-referrer',
];

/** The answer to a sender's handshake. No page of another origin may read it. */
export function handshakeReply(answer: HandshakeAnswer): WebhookReply {
  const { status, body } = answer;
  const headers = [...contentHeaders(answer), ...harmless, ...answer.headers];
  return { status, code: 'handshake', rows: 0, headers, body };
}

/** The answer to a preflight: any origin may POST with the headers it asks for. */
export function preflightReply(requested: string | undefined): HttpReply {
  const headers = [
    'Access-Control-Allow-Origin',
    '*',
    'Access-Control-Allow-Methods',
    'POST',
    ...(requested === undefined ? [] : ['Access-Control-Allow-Headers', requested]),
    'Access-Control-Max-Age',
    '600',
  ];
  return { status: 204, headers, body: '' };
}
