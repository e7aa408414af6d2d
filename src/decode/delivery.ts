/**
 * The id of a delivery, which remains the same when it is sent again: read where the table's option `dedupe` says. Takes a request whose
 * body has been decoded; returns a digest of the id, so that ids of any length have one size. May refuse with
 * `delivery_id_missing`. Pure.
 */
import { createHash } from 'node:crypto';
import type { Dedupe, DecodeRequest, DeliveryPart, Intake } from '../tables/flow.ts';
import { formPartBytes, formParts } from '../kit/form.ts';
import { firstHeader } from '../kit/header.ts';
import { Elements, isNumber, isString, Members, skipSpace, skipValue, stringAt } from '../kit/json-walk.ts';
import { refusal, Refused } from '../tables/refusals.ts';

type DeliveryRequest = Pick<DecodeRequest, 'body' | 'rawHeaders' | 'header'>;

/** 32 hexadecimal digits. */
export function deliveryOf(dedupe: Dedupe, format: Intake['format'], request: DeliveryRequest): string {
  const values = dedupe.parts.map((part) => {
    const value = valueOf(part, format, request);
    if (value === null || value === '') throw missing(dedupe);
    return value;
  });
  // As JSON, no two lists of values are the same text.
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 32);
}

/** The id of a batch: a copy of it has the same items in the same order. */
export function idTogether(ids: readonly string[]): string {
  const [first = ''] = ids;
  return ids.length === 1 ? first : createHash('sha256').update(ids.join()).digest('hex').slice(0, 32);
}

function missing({ shown }: Dedupe): Refused {
  return new Refused('delivery_id_missing', `${refusal('delivery_id_missing').message}: ${shown}`);
}

function valueOf(part: DeliveryPart, format: Intake['format'], request: DeliveryRequest): string | null {
  if ('header' in part) return firstHeader(request, part.header);
  const { body } = request;
  if (format === 'form') return fieldOf(body, part.path);
  return format === 'json' ? memberOf(body, part.path) : null;
}

/** The last field of that name, as in the row. */
function fieldOf(body: Buffer, [name, ...more]: readonly (string | number)[]): string | null {
  if (more.length > 0) return null;
  let value: string | null = null;
  for (const [key, written] of formParts(body.toString('utf8')))
    if (formPartBytes(key).toString('utf8') === name) value = formPartBytes(written).toString('utf8');
  return value;
}

/** A text or a number; of members with the same name the last counts, as in jsonb. */
function memberOf(body: Buffer, path: readonly (string | number)[]): string | null {
  let at = skipSpace(body, 0);
  for (const step of path) {
    const next = typeof step === 'number' ? elementAt(body, at, step) : memberAt(body, at, step);
    if (next === null) return null;
    at = next;
  }
  const end = skipValue(body, at);
  if (isString(body, at)) return stringAt(body, at, end);
  return isNumber(body, at) ? body.toString('latin1', at, end) : null;
}

function memberAt(body: Buffer, at: number, name: string): number | null {
  if (body[at] !== 0x7b) return null;
  const wanted = Buffer.from(name);
  const members = new Members(body, at);
  let found: number | null = null;
  while (members.next()) if (members.keyIs(wanted)) found = members.valueStart;
  return found;
}

function elementAt(body: Buffer, at: number, index: number): number | null {
  if (body[at] !== 0x5b) return null;
  const elements = new Elements(body, at);
  for (let i = 0; elements.next(); i++) if (i === index) return elements.start;
  return null;
}
