/**
 * CREATE, ALTER and DROP SECRET. Takes tokens, gives a CALL that carries the sealed value only; refuses an empty or
 * overlong value and unknown options (22023).
 */
import { identities } from '../catalog/seals.ts';
import { limits } from '../tables/limits.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import { oneOf, parseOptions, refuseUnknown } from './options.ts';
import { callPlan, callerSchemas, textArray, type Plan } from './plan.ts';
import type { ValidateRooms } from './validate-clause.ts';

/** PostgreSQL's bound on a name, in bytes. It cuts longer ones; a secret is sealed under its name, so it is refused. */
const nameBytesMax = 63;

export function createSecret(cursor: Cursor, rooms: ValidateRooms): Plan {
  cursor.refuseForeign('CREATE SECRET');
  cursor.expect('create', 'secret');
  const ifNotExists = cursor.accept('if', 'not', 'exists');
  const name = secretName(cursor);
  if (!cursor.accept('with'))
    cursor.unexpected("The form is: CREATE SECRET name WITH (backend = 'meta') AS '...'");
  const backend = parseBackend(cursor);
  const { sealId, sealed, forms } = sealValue(cursor, name, rooms);
  const args = [
    name.schema,
    name.name,
    ifNotExists,
    backend,
    sealId,
    sealed,
    textArray(forms),
    callerSchemas,
  ];
  return callPlan('CREATE SECRET', 'create_formed_secret', args, cursor.lexical.text);
}

export function alterSecret(cursor: Cursor, rooms: ValidateRooms): Plan {
  cursor.refuseForeign('ALTER SECRET');
  cursor.expect('alter', 'secret');
  const name = secretName(cursor);
  const backend = cursor.accept('with') ? parseBackend(cursor) : null;
  const { sealId, sealed, forms } = sealValue(cursor, name, rooms);
  const args = [name.schema, name.name, backend, sealId, sealed, textArray(forms), callerSchemas];
  return callPlan('ALTER SECRET', 'alter_formed_secret', args, cursor.lexical.text);
}

export function dropSecret(cursor: Cursor): Plan {
  cursor.refuseForeign('DROP SECRET');
  cursor.expect('drop', 'secret');
  const ifExists = cursor.accept('if', 'exists');
  const name = secretName(cursor);
  cursor.expectEnd();
  const args = [name.schema, name.name, ifExists, callerSchemas];
  return callPlan('DROP SECRET', 'drop_secret', args, cursor.lexical.text);
}

function secretName(cursor: Cursor): Name {
  const name = cursor.qualifiedName(2);
  if (Buffer.byteLength(name.name, 'utf8') > nameBytesMax) {
    throw new StatementError('42622', `a secret's name has at most ${nameBytesMax} bytes`, name.start);
  }
  return name;
}

function parseBackend(cursor: Cursor): string {
  const at = cursor.offset;
  const options = parseOptions(cursor);
  refuseUnknown(options, ['backend'], 'a secret');
  const backend = options[0];
  if (backend === undefined) throw new StatementError('22023', 'option "backend" is missing', at);
  return oneOf(backend, 'meta');
}

interface SealedValue {
  readonly sealId: string;
  readonly sealed: string;
  /** What it looks like, as senders ask for one; nothing else is ever told of it. */
  readonly forms: readonly string[];
}

/** AS '…' to the end of the statement. */
function sealValue(cursor: Cursor, name: Name, rooms: ValidateRooms): SealedValue {
  cursor.expect('as');
  const at = cursor.offset;
  const value = cursor.literal(true);
  if (value === null) cursor.unexpected();
  cursor.expectEnd();
  if (value === '') throw new StatementError('22023', 'a secret must not be empty', at);
  if (Buffer.byteLength(value, 'utf8') > limits.secretBytesMax) {
    throw new StatementError('22023', `a secret has at most ${limits.secretBytesMax} bytes`, at);
  }
  const sealId = rooms.newId();
  const sealed = rooms.seal(value, identities.secret(name.name, sealId));
  return { sealId, sealed, forms: rooms.secretForms(value) };
}
