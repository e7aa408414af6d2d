/**
 * JSON numbers that mean a moment or a time of day, as text for PostgreSQL's timestamps and times. Exact: digits
 * are moved, never computed with as floating point; what is finer than a microsecond, which PostgreSQL cannot hold, is rounded
 * to the nearest one, half to even, as PostgreSQL does. Pure.
 */

export type Unit = 'second' | 'milli' | 'micro' | 'nano';

/** By how many decimal places a number is shifted to become microseconds. */
const placesToMicros: { readonly [unit in Unit]: number } = { second: 6, milli: 3, micro: 0, nano: -3 };

/** A parsed JSON number: ±0.digits × 10^point, `digits` without leading zeros, '' for zero. */
interface JsonDecimal {
  readonly negative: boolean;
  readonly digits: string;
  readonly point: number;
}

function readDecimal(number: string): JsonDecimal {
  const negative = number.startsWith('-');
  const e = number.search(/[eE]/);
  const mantissa = number.slice(negative ? 1 : 0, e < 0 ? undefined : e);
  const exponent = e < 0 ? 0 : Number(number.slice(e + 1));
  const dot = mantissa.indexOf('.');
  const all = dot < 0 ? mantissa : mantissa.slice(0, dot) + mantissa.slice(dot + 1);
  let zeros = 0;
  while (all.charCodeAt(zeros) === 48) zeros++;
  const whole = dot < 0 ? mantissa.length : dot;
  return { negative, digits: all.slice(zeros), point: whole - zeros + exponent };
}

/**
 * The unit, by the size of the number: seconds, milliseconds, microseconds or nanoseconds since 1970. Right for every moment from
 * 1973-03-03 to 5138-11-16, and what RisingWave's `guess_number_unit` assumes.
 */
function guessUnit({ digits, point }: JsonDecimal): Unit {
  if (digits === '' || point <= 11) return 'second';
  if (point <= 14) return 'milli';
  return point <= 17 ? 'micro' : 'nano';
}

/** More digits than any timestamp of PostgreSQL has microseconds. */
const microsDigitsMax = 19;

/** null: too many digits for a moment. */
function toMicros(decimal: JsonDecimal, unit: Unit): bigint | null {
  const { digits, negative } = decimal;
  if (digits === '') return 0n;
  const point = decimal.point + placesToMicros[unit];
  if (point > microsDigitsMax) return null;
  if (point < 0) return 0n;
  let micros = BigInt(digits.slice(0, point).padEnd(point, '0'));
  const rest = digits.slice(point);
  if (rest !== '' && isRoundedUp(rest, micros)) micros++;
  return negative ? -micros : micros;
}

function isRoundedUp(rest: string, micros: bigint): boolean {
  const first = rest.charCodeAt(0) - 48;
  if (first !== 5) return first > 5;
  return /[1-9]/.test(rest.slice(1)) || (micros & 1n) === 1n;
}

const microsPerDay = 86_400_000_000n;

/** `2023-11-14 22:13:20.5Z`; null: no timestamp of PostgreSQL. `unit` null: guessed. */
export function momentText(number: string, unit: Unit | null): string | null {
  const decimal = readDecimal(number);
  const micros = toMicros(decimal, unit ?? guessUnit(decimal));
  if (micros === null) return null;
  let day = micros / microsPerDay;
  let rest = micros % microsPerDay;
  if (rest < 0n) {
    day--;
    rest += microsPerDay;
  }
  return momentOf(Number(day), Number(rest));
}

const unitsPerDay = { second: 86_400, milli: 86_400_000, micro: 86_400_000_000 };
const microsPerUnit = { second: 1_000_000, milli: 1_000, micro: 1 };

/** The same for an exact whole number from 0, which nearly every moment is, without taking digits apart. */
export function wholeMomentText(number: number, unit: Exclude<Unit, 'nano'> | null): string | null {
  const known = unit ?? (number < 1e11 ? 'second' : number < 1e14 ? 'milli' : 'micro');
  const rest = number % unitsPerDay[known];
  return momentOf((number - rest) / unitsPerDay[known], rest * microsPerUnit[known]);
}

/** PostgreSQL's timestamps: from 4714-11-24 BC to the end of the year 294276, in days since 1970. */
const firstDay = -2_440_588;
const lastDay = 106_762_939;

function momentOf(day: number, microsOfDay: number): string | null {
  if (day < firstDay || day > lastDay) return null;
  const { date, era } = dayText(day);
  return `${date} ${clockText(microsOfDay)}Z${era}`;
}

interface DayText {
  readonly date: string;
  readonly era: '' | ' BC';
}

/** Moments of the same day come together: the text of the day is made once. */
let recent: { readonly day: number; readonly text: DayText } | null = null;

function dayText(day: number): DayText {
  if (recent?.day === day) return recent.text;
  const { year, month, dayOfMonth } = civilDate(day);
  // PostgreSQL has no year 0: the year before 1 is 1 BC.
  const date = `${pad(year > 0 ? year : 1 - year, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}`;
  const text: DayText = { date, era: year > 0 ? '' : ' BC' };
  recent = { day, text };
  return text;
}

/** `01:02:03.123`, from a number of milliseconds or microseconds since midnight; null: not within a day. */
export function timeText(number: string, unit: Unit): string | null {
  const micros = toMicros(readDecimal(number), unit);
  if (micros === null || micros < 0n || micros > microsPerDay) return null;
  return clockText(Number(micros));
}

function clockText(micros: number): string {
  const seconds = Math.floor(micros / 1_000_000);
  const fraction = micros % 1_000_000;
  const minutes = Math.floor(seconds / 60);
  const hms = `${pairs[Math.floor(minutes / 60)]}:${pairs[minutes % 60]}:${pairs[seconds % 60]}`;
  return fraction === 0 ? hms : `${hms}.${pad(fraction, 6)}`;
}

const pairs: readonly string[] = Array.from({ length: 60 }, (_, i) => pad(i, 2));

function pad(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

/** The proleptic Gregorian date of a day since 1970, counted in years that begin with March, 400 at a time. */
function civilDate(day: number): { year: number; month: number; dayOfMonth: number } {
  const shifted = day + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1_460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const dayOfMonth = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfMonth };
}
