/**
 * Which sender's check a table has, and what it calls the event of a request: looked up when somebody asks for the first time. Takes the
 * expression and the names of its secrets; never throws.
 */
import type { KnownSender } from '../types/target.ts';
import { eventPlaces } from './events.ts';
import { senderOf } from './senders.ts';

const eventCharsMax = 200;

export class SenderOfCheck implements KnownSender {
  readonly #expression: string;
  readonly #secrets: readonly string[];
  #id: string | null | undefined;

  constructor(expression: string, secrets: readonly string[]) {
    this.#expression = expression;
    this.#secrets = secrets;
  }

  get id(): string | null {
    if (this.#id === undefined) this.#id = senderOf(this.#expression, this.#secrets)?.id ?? null;
    return this.#id;
  }

  event(rawHeaders: readonly string[], body: Buffer | null): string | null {
    return this.id === null ? null : eventOf(this.id, rawHeaders, body);
  }
}

function eventOf(id: string, rawHeaders: readonly string[], body: Buffer | null): string | null {
  const place = Object.hasOwn(eventPlaces, id) ? eventPlaces[id] : undefined;
  if (place === undefined) return null;
  const found =
    'header' in place ? headerOf(rawHeaders, place.header.toLowerCase()) : fieldOf(body, place.field);
  return found === null || found === '' ? null : found.slice(0, eventCharsMax);
}

function headerOf(rawHeaders: readonly string[], name: string): string | null {
  const at = rawHeaders.findIndex((it, i) => i % 2 === 0 && it.toLowerCase() === name);
  return at < 0 ? null : (rawHeaders[at + 1] ?? null);
}

/** null: the body is not JSON, is cut, or has no text there. */
function fieldOf(body: Buffer | null, path: readonly string[]): string | null {
  if (body === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
  for (const key of path)
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string, unknown>)[key]
        : null;
  return typeof value === 'string' ? value : null;
}
