/** The option methods: which requests are stored. Returns them in one form; refuses with StatementError. Pure. */
import { StatementError } from './cursor.ts';
import type { Option } from './options.ts';

/** In the order in which they are written. */
const known = ['GET', 'POST', 'PUT', 'PATCH'] as const;

/** Names with commas between them, in any case and order. */
export function methodsValue({ value, valueAt }: Option): string {
  const given = value.split(',').map((name) => name.trim().toUpperCase());
  const other = given.find((name) => !known.some((it) => it === name));
  if (other !== undefined)
    throw new StatementError('22023', `method "${other}" is not known`, valueAt, {
      hint:
        other === 'HEAD'
          ? "HEAD is answered and never stored: ANSWER UNCHECKED WHEN method = 'HEAD' STATUS 200."
          : `Known: ${known.join(', ')}. The form is: methods = 'GET, POST'.`,
    });
  return known.filter((name) => given.includes(name)).join(', ');
}
