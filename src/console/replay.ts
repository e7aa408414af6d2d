/**
 * Replays a request from the console to a table that the user owns, through this Headgate's own listener: nothing is
 * ever sent anywhere else. Takes the request and the role that has logged in. Signs the request anew as the table's
 * sender would, with the table's own secret, if the role owns the table and may use each secret of its check; Headgate's
 * own connection checks this. Refuses with `replay_impossible`, and with SqlFailure 42501. The secret and the signature
 * leave the process only towards the listener.
 */
import { randomBytes } from 'node:crypto';
import type { ReplayRequest, TestAnswer } from './api.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { signingOf } from '../catalog/role-queries.ts';
import type { CatalogTableQuery } from '../catalog/role-queries.ts';
import type { CheckSource } from '../catalog/table-compiler.ts';
import { senderOf } from '../senders/senders.ts';
import type { SignedRequest } from '../senders/senders.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import { askOwn } from './send-to-listener.ts';
import { signAgain, UnsignableError } from '../senders/sign-again.ts';

export interface ReplayListener {
  readonly databases: Pick<Catalog, 'client' | 'compiler'>;
  /** The part before `/webhook/…`, as this machine calls it and as senders do; null: the listener is off. */
  readonly own: string | null;
  readonly base: string | null;
}

type ReplayHeaders = ReplayRequest['headers'];

/** Headers of the connection, of this machine as its own client, and those in which a proxy names the caller. */
const left =
  /^(?:host|connection|content-length|content-encoding|transfer-encoding|keep-alive|expect|upgrade|te|trailer|via|forwarded|x-forwarded-.*|x-real-ip|proxy-.*)$/i;

export async function replayed(
  { schema, table, method, query, headers, body, sign }: ReplayRequest,
  who: { readonly user: string; readonly database: string },
  { databases, own, base }: ReplayListener,
): Promise<TestAnswer> {
  if (own === null || base === null)
    throw new Refused('replay_impossible', 'the webhook listener of this Headgate is off');
  const { database } = who;
  const source = await sourceOf(databases, { ...who, schema, table });
  const path = `/webhook/${[database, schema, table].map(encodeURIComponent).join('/')}`;
  const plain: SignedRequest = {
    method,
    url: `${base}${path}${query}`,
    headers: {},
    body: Buffer.from(body, 'base64'),
  };
  const signed = sign ? signedAnew(source, { ...plain, headers: firstOf(headers) }) : plain;
  const given = firstOf(headers);
  // A header that occurs several times stays as it is unless the signature replaces it.
  const renewed = Object.entries(signed.headers).filter(([name, value]) => sign && given[name] !== value);
  const replaced = new Set(renewed.map(([name]) => name));
  const kept = headers.filter(([name]) => !left.test(name) && !replaced.has(name.toLowerCase()));
  const { search } = new URL(signed.url);
  const all: ReplayHeaders = [...kept, ...renewed];
  return askOwn(`${own}${path}${search}`, { method, headers: all, body: signed.body });
}

/** null: the table has no check. */
async function sourceOf(
  databases: ReplayListener['databases'],
  question: CatalogTableQuery & { readonly schema: string },
): Promise<CheckSource | null> {
  const found = await signingOf(databases, question).catch((error: unknown) => {
    if (error instanceof Refused) throw error;
    throw new Refused('replay_impossible', 'the check of this table cannot be opened');
  });
  const denied = (message: string): SqlFailure => new SqlFailure({ sqlstate: '42501', message });
  if (found === null) throw denied(`there is no table ${question.schema}.${question.table} of yours`);
  const [foreign] = found.foreignSecrets;
  if (foreign !== undefined) throw denied(`permission denied for secret "${foreign}", which the check uses`);
  return found.source;
}

/** By name in lower case. */
function firstOf(headers: ReplayHeaders): Record<string, string> {
  return Object.fromEntries(headers.toReversed().map(([name, value]) => [name.toLowerCase(), value]));
}

/** Only the signature and its time are new. */
function signedAnew(source: CheckSource | null, plain: SignedRequest): SignedRequest {
  if (source === null) return plain;
  const aliases = [...source.secrets.keys()];
  const sender = senderOf(source.expression, aliases);
  if (sender === null)
    throw new Refused(
      'replay_impossible',
      'its check is an expression of its own: nobody knows how to sign for it',
    );
  if (sender.paired)
    throw new Refused(
      'replay_impossible',
      `${sender.name} signs with a private key, which only ${sender.name} has`,
    );
  // While a secret is being replaced, the new one is last.
  const signingKey = source.secrets.get(aliases.at(-1) ?? '') ?? '';
  try {
    return signAgain(sender, plain, { signingKey, nowMs: Date.now(), random: randomBytes });
  } catch (error) {
    if (error instanceof UnsignableError)
      throw new Refused('replay_impossible', `${error.message}: add the header that the sender sent`);
    // The error may quote the secret.
    throw new Refused(
      'replay_impossible',
      `${sender.name} would not sign this: the secret, or the body, is not of its form`,
    );
  }
}
