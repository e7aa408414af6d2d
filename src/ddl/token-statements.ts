/**
 * CREATE and DROP TOKEN. Takes tokens of the statement, returns a SELECT or a CALL; the engine makes the token itself, which appears
 * only in the result. Refuses names, tables, origins and rates that and lifetimes that are too long, too many or not valid (42622, 54000, 22023). Pure.
 */
import { parseRate } from '../kit/rate.ts';
import { nameBytesMax } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import { parseOptions, refuseUnknown, type Option } from './options.ts';
import { askPlan, relationOrError, type StatementPlan } from './plan.ts';
import { answeringPlan } from './result-plans.ts';

export function createToken(cursor: Cursor): StatementPlan {
  cursor.refuseForeign('CREATE TOKEN');
  cursor.expect('create', 'token');
  const name = tokenName(cursor);
  const reads = cursor.accept('for', 'select', 'on');
  if (!reads) cursor.expect('for', 'insert', 'on');
  const at = cursor.offset;
  const tables: Name[] = [];
  do tables.push(cursor.qualifiedName(3));
  while (cursor.accept(','));
  if (tables.length > limits.tokenTablesMax)
    throw new StatementError('54000', `a token is for at most ${limits.tokenTablesMax} tables`, at);
  const options = cursor.accept('with') ? parseOptions(cursor) : [];
  cursor.expectEnd();
  const known = reads ? ['origins', 'rate', 'expires'] : ['origins', 'rate'];
  refuseUnknown(options, known, reads ? 'a token FOR SELECT' : 'a token FOR INSERT');
  const named = (word: string) => options.find((option) => option.name === word);
  const relations = { sql: `ARRAY[${tables.map(relationOrError).join(', ')}]` };
  const args = [name, relations, { json: originsOf(named('origins')) }, rateOf(named('rate'))];
  const lifetime = reads ? [{ sql: String(lifetimeOf(named('expires'))) }] : [];
  return answeringPlan('CREATE TOKEN', 'create_token', [...args, ...lifetime], cursor.lexical.text);
}

export function dropToken(cursor: Cursor): StatementPlan {
  cursor.refuseForeign('DROP TOKEN');
  cursor.expect('drop', 'token');
  const ifExists = cursor.accept('if', 'exists');
  const name = tokenName(cursor);
  cursor.expectEnd();
  return askPlan('DROP TOKEN', { name, ifExists }, cursor);
}

function tokenName(cursor: Cursor): string {
  const at = cursor.offset;
  const name = cursor.identifier();
  if (Buffer.byteLength(name, 'utf8') > nameBytesMax)
    throw new StatementError('42622', `a token's name has at most ${nameBytesMax} bytes`, at);
  return name;
}

/** As a browser writes them: an origin is compared character by character, and there is no wildcard. */
function originsOf(option: Option | undefined): readonly string[] {
  if (option === undefined) return [];
  const { value, valueAt } = option;
  const origins = value.split(',').map((it) => it.trim());
  if (origins.length > limits.tokenOriginsMax)
    throw new StatementError('54000', `a token has at most ${limits.tokenOriginsMax} origins`, valueAt);
  for (const origin of origins) {
    const meant = originMeant(origin);
    if (meant === origin && origin.length <= limits.originCharsMax) continue;
    const hint =
      meant === null || meant === origin
        ? `The form is https://host or https://host:port, in at most ${limits.originCharsMax} characters; several with commas.`
        : `A browser writes it ${meant}.`;
    throw new StatementError('22023', `"${origin}" is no origin of web pages`, valueAt, { hint });
  }
  return origins;
}

function originMeant(text: string): string | null {
  if (text.includes('*') || !URL.canParse(text)) return null;
  const { protocol, origin } = new URL(text);
  return protocol === 'https:' || protocol === 'http:' ? origin : null;
}

function rateOf(option: Option | undefined): string | null {
  if (option === undefined) return null;
  const { value, valueAt } = option;
  if (value.length <= limits.tokenRateCharsMax && parseRate(value) !== null) return value.trim();
  throw new StatementError('22023', `rate "${value}" is not known`, valueAt, {
    hint: "For example '100/s', '600/min' or '5000/h burst 100'.",
  });
}

const unitSeconds: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3_600, day: 86_400 };

/** In seconds. It is part of a URL, and URLs are kept in many places. */
function lifetimeOf(option: Option | undefined): number {
  if (option === undefined) return limits.readTokenSeconds;
  const { value, valueAt } = option;
  const [, count = '', unit = ''] = /^\s*(\d{1,5})\s+(second|minute|hour|day)s?\s*$/i.exec(value) ?? [];
  const seconds = Number(count) * (unitSeconds[unit.toLowerCase()] ?? NaN);
  if (count !== '' && seconds >= 1 && seconds <= limits.readTokenSecondsMax) return seconds;
  throw new StatementError('22023', `expires "${value}" is not known`, valueAt, {
    hint: "For example '10 minutes' or '1 hour'; from one second to one day.",
  });
}
