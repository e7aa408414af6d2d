/**
 * CREATE, ALTER and DROP SECRET. Takes tokens, returns a CALL that contains only the sealed value (an empty one for a
 * secret that is still to be learned); refuses an empty or overlong value and unknown options (22023).
 */
import { parseWindow } from '../types/table-options.ts';
import { identities } from '../catalog/seals.ts';
import { nameBytesMax } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { secretForms } from '../senders/secret-forms.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import { oneOf, parseOptions, refuseUnknown, type Option } from './options.ts';
import { askPlan, type StatementPlan } from './plan.ts';
import type { DdlContext } from './statement-context.ts';

export function createSecret(cursor: Cursor, deps: DdlContext): StatementPlan {
  cursor.refuseForeign('CREATE SECRET');
  cursor.expect('create', 'secret');
  const ifNotExists = cursor.accept('if', 'not', 'exists');
  const name = secretName(cursor);
  if (!cursor.accept('with'))
    cursor.unexpected("The form is: CREATE SECRET name WITH (backend = 'meta') AS '...'");
  const { backend, learnSeconds } = parseSecretOptions(cursor, true);
  const given = { ...named(name), ifNotExists, backend, ...valueOf(cursor, name, learnSeconds, deps) };
  return askPlan('CREATE SECRET', given, cursor);
}

/** There is no such statement: PostgreSQL would say so, too, but would write it into its log, with the value. */
export function replaceSecret(cursor: Cursor): never {
  cursor.expect('create');
  cursor.unexpected("ALTER SECRET name AS '...' replaces the value of a secret.");
}

/** The same for EXPLAIN and PREPARE of such a statement. */
export function refuseSecretInside(cursor: Cursor): void {
  for (let before = ''; !cursor.atEnd; cursor.take()) {
    const isSecret = /^(?:create|alter)$/.test(cursor.peek()) && cursor.peek(1) === 'secret';
    if (isSecret && /^(?:|explain|analy[sz]e|verbose|as|\))$/.test(before)) {
      cursor.take();
      cursor.unexpected('Nothing can be explained or prepared about a secret.');
    }
    before = cursor.peek();
  }
}

export function alterSecret(cursor: Cursor, deps: DdlContext): StatementPlan {
  cursor.refuseForeign('ALTER SECRET');
  cursor.expect('alter', 'secret');
  const name = secretName(cursor);
  const { backend, learnSeconds } = cursor.accept('with')
    ? parseSecretOptions(cursor, false)
    : { backend: null, learnSeconds: null };
  return askPlan(
    'ALTER SECRET',
    { ...named(name), backend, ...valueOf(cursor, name, learnSeconds, deps) },
    cursor,
  );
}

export function dropSecret(cursor: Cursor): StatementPlan {
  cursor.refuseForeign('DROP SECRET');
  cursor.expect('drop', 'secret');
  const ifExists = cursor.accept('if', 'exists');
  const name = secretName(cursor);
  cursor.expectEnd();
  return askPlan('DROP SECRET', { ...named(name), ifExists }, cursor);
}

function secretName(cursor: Cursor): Name {
  const name = cursor.qualifiedName(2);
  // PostgreSQL would cut it off, and a secret is sealed under its name.
  if (Buffer.byteLength(name.name, 'utf8') > nameBytesMax) {
    throw new StatementError('42622', `a secret's name has at most ${nameBytesMax} bytes`, name.start);
  }
  return name;
}

const named = ({ schema, name }: Name) => ({ schema, name });

/** `learnSeconds`: how long its sender may bring the value; null: the statement gives it. */
function parseSecretOptions(cursor: Cursor, needsBackend: boolean) {
  const at = cursor.offset;
  const options = parseOptions(cursor);
  refuseUnknown(options, ['backend', 'learn'], 'a secret');
  const backend = options.find(({ name }) => name === 'backend');
  const learn = options.find(({ name }) => name === 'learn');
  if (backend === undefined && (needsBackend || learn === undefined))
    throw new StatementError('22023', 'option "backend" is missing', at);
  return {
    backend: backend === undefined ? null : oneOf(backend, 'meta'),
    learnSeconds: learn === undefined ? null : learnWindow(learn),
  };
}

function learnWindow({ value, valueAt }: Option): string {
  const seconds = parseWindow(value, limits.learnWindowMinS, limits.learnWindowMaxS);
  if (seconds !== null) return String(seconds);
  throw new StatementError('22023', `learn "${value}" is not known`, valueAt, {
    hint: "For example '10 minutes'; from one minute to one day.",
  });
}

interface SealedValue {
  readonly sealId: string;
  readonly sealed: string;
  /** The forms that its value has, of those that senders ask for; nothing else about it is disclosed. */
  readonly forms: readonly string[];
  readonly learnSeconds: string | null;
}

/** Without a value as long as its sender may bring it. */
function valueOf(cursor: Cursor, { name }: Name, learnSeconds: string | null, deps: DdlContext): SealedValue {
  const value = learnSeconds === null ? givenValue(cursor) : '';
  cursor.expectEnd();
  const sealId = deps.newId();
  const forms = learnSeconds === null ? secretForms(value) : [];
  return { sealId, sealed: deps.seal(value, identities.secret(name, sealId)), forms, learnSeconds };
}

/** AS '…' */
function givenValue(cursor: Cursor): string {
  cursor.expect('as');
  const at = cursor.offset;
  const value = cursor.literal(true);
  if (value === null) cursor.unexpected();
  if (value === '') throw new StatementError('22023', 'a secret must not be empty', at);
  if (Buffer.byteLength(value, 'utf8') > limits.secretBytesMax) {
    throw new StatementError('22023', `a secret has at most ${limits.secretBytesMax} bytes`, at);
  }
  return value;
}
