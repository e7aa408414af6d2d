/** The arguments of a tool: their JSON Schema, as clients read it, and the check of what a client gives. Refuses with PlainError. Pure. */
import { PlainError } from '../../kit/plain-error.ts';

type ArgumentType = { readonly description: string; readonly optional?: true } & (
  | { readonly type: 'string'; readonly maxLength: number }
  | { readonly type: 'integer'; readonly minimum: number; readonly maximum: number }
  | {
      readonly type: 'array';
      readonly items: { readonly type: 'integer'; readonly minimum: number };
      readonly maxItems: number;
    }
);

export type ArgumentTypes = Readonly<Record<string, ArgumentType>>;

export function argumentsOf(given: unknown, takes: ArgumentTypes): Readonly<Record<string, unknown>> {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new PlainError('arguments is an object');
  const all = given as Record<string, unknown>;
  const unknown = Object.keys(all).find((name) => !Object.hasOwn(takes, name));
  if (unknown !== undefined) throw new PlainError(`there is no argument ${JSON.stringify(unknown)}`);
  for (const [name, type] of Object.entries(takes)) {
    const value = all[name];
    if (value === undefined && type.optional === true) continue;
    if (!fits(value, type)) throw new PlainError(`${name}: ${sentenceOf(type)}`);
  }
  return all;
}

function fits(value: unknown, type: ArgumentType): boolean {
  if (type.type === 'string')
    return typeof value === 'string' && value !== '' && value.length <= type.maxLength;
  if (type.type === 'integer') return isWhole(value, type.minimum, type.maximum);
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= type.maxItems &&
    value.every((item) => isWhole(item, type.items.minimum, Number.MAX_SAFE_INTEGER))
  );
}

const isWhole = (value: unknown, from: number, to: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= from && (value as number) <= to;

function sentenceOf(type: ArgumentType): string {
  if (type.type === 'string') return `a text of 1 to ${type.maxLength} characters`;
  if (type.type === 'integer') return `a whole number from ${type.minimum} to ${type.maximum}`;
  return `1 to ${type.maxItems} whole numbers from ${type.items.minimum}`;
}
