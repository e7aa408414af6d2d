/**
 * The id of a delivery, which remains the same when it is sent again: read where the table's option `dedupe` says; and what a copy has in
 * common with the delivery besides, its body unless `dedupe_compare` says otherwise. Takes a request whose body has been decoded; returns
 * digests of both, so that each has one size whatever was sent. Of SHA-256 16 bytes are enough: a sender who found two bodies with one
 * digest could only lose a delivery of its own. May refuse with `delivery_id_missing`. Pure.
 */
import type { Dedupe, DeliveryPart } from '../types/table-options.ts';
import type { DecodeRequest } from '../types/request.ts';
import type { Intake } from '../types/target.ts';
import type { Rows } from '../types/rows.ts';
import { hasMark } from '../kit/json-grammar.ts';
import { formFields } from '../kit/form.ts';
import { firstHeader } from '../kit/header.ts';
import { FormProblem } from '../kit/multipart.ts';
import { formLimits } from './bodies.ts';
import { Elements, isNumber, isString, Members, skipSpace, skipValue, stringAt } from '../kit/json-walk.ts';
import { digest } from '../types/table-options.ts';
import { refusal, Refused } from '../errors/refusals.ts';

type DeliveryRequest = Pick<DecodeRequest, 'body' | 'rawHeaders' | 'header'>;

/** Both have 32 hexadecimal digits. */
export type DeliveryDigest = Required<Pick<Rows, 'delivery'>> & Pick<Rows, 'content'>;

export function deliveryOf(
  dedupe: Dedupe,
  format: Intake['format'],
  request: DeliveryRequest,
): DeliveryDigest {
  const values = dedupe.parts.map((part) => {
    const value = valueOf(part, format, request);
    if (value === null || value === '') throw missing(dedupe);
    return value;
  });
  // As JSON, no two lists of values are the same text.
  const delivery = digest(JSON.stringify(values));
  const { compare } = dedupe;
  if (compare === 'id') return { delivery };
  if (compare === undefined) return { delivery, content: digest(request.body) };
  const compared = compare.map((part) => writtenAt(part, format, request));
  return { delivery, content: digest(JSON.stringify(compared)) };
}

/** The delivery that a batch is: a copy of it has the same items in the same order. */
export function together(items: readonly DeliveryDigest[]): DeliveryDigest {
  const [first] = items;
  if (items.length === 1 && first !== undefined) return first;
  const delivery = digest(items.map((it) => it.delivery).join());
  if (first?.content === undefined) return { delivery };
  return { delivery, content: digest(items.map(({ content }) => content).join()) };
}

function missing({ shown }: Dedupe): Refused {
  return new Refused('delivery_id_missing', `${refusal('delivery_id_missing').message}: ${shown}`);
}

function valueOf(part: DeliveryPart, format: Intake['format'], request: DeliveryRequest): string | null {
  if ('header' in part) return firstHeader(request, part.header);
  const { body } = request;
  if (format === 'form') return fieldOf(request, part.path);
  return format === 'json' ? memberOf(body, part.path) : null;
}

/** The last field of that name, as in the row. */
function fieldOf(request: DeliveryRequest, [name, ...more]: readonly (string | number)[]): string | null {
  if (more.length > 0) return null;
  let value: string | null = null;
  try {
    for (const field of formFields(request.body, firstHeader(request, 'content-type'), formLimits))
      if (field !== null && field[0] === name && typeof field[1] === 'string') [, value] = field;
  } catch (error) {
    // What an earlier version kept is stored, but has no id (bodies.ts).
    if (error instanceof FormProblem) return null;
    throw error;
  }
  return value;
}

/** As it was written, whatever it is: an object has its members in the order in which they were sent. */
function writtenAt(part: DeliveryPart, format: Intake['format'], request: DeliveryRequest): string | null {
  if ('header' in part || format !== 'json') return valueOf(part, format, request);
  const { body } = request;
  const at = placeOf(body, part.path);
  return at === null ? null : body.toString('utf8', at, skipValue(body, at));
}

/** A text or a number; of members with the same name the last counts, as in jsonb. */
function memberOf(body: Buffer, path: readonly (string | number)[]): string | null {
  const at = placeOf(body, path);
  if (at === null) return null;
  const end = skipValue(body, at);
  if (isString(body, at)) return stringAt(body, at, end);
  return isNumber(body, at) ? body.toString('latin1', at, end) : null;
}

function placeOf(body: Buffer, path: readonly (string | number)[]): number | null {
  let at = skipSpace(body, hasMark(body) ? 3 : 0);
  for (const step of path) {
    const next = typeof step === 'number' ? elementAt(body, at, step) : memberAt(body, at, step);
    if (next === null) return null;
    at = next;
  }
  return at;
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
