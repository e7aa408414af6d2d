/** timestamptz in the ISO 8601 forms that senders write, in the time zone UTC; other spellings raise an error. */
import { EvaluationError, invalidInput, unsupported } from './errors.ts';
import { roundHalfEven } from './scalars.ts';

const timestampForm =
  /^\s*(\d{4})-(\d{2})-(\d{2})(?:(?:[Tt]|\s+)(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,12}))?)?)?\s*(?:([Zz])|([+-])(\d{2})(?::?(\d{2}))?)?\s*$/;

const microsPerSecond = 1_000_000n;

export function parseTimestamp(text: string): bigint {
  const parts = text.length > 64 ? null : timestampForm.exec(text);
  if (parts === null) {
    // PostgreSQL reads many more spellings; only a text without digits and words is certainly not a timestamp.
    throw /^[^0-9a-z]*$/i.test(text.slice(0, 64))
      ? invalidInput('timestamp with time zone')
      : unsupported('this timestamp');
  }
  const [, year = '', month = '', day = '', hour = '0', minute = '0', second = '0', fraction = ''] = parts;
  const sign = parts[9];
  if ((parts[8] !== undefined || sign !== undefined) && parts[4] === undefined)
    throw unsupported('a date with a zone');
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const midnight = Date.UTC(y, mo - 1, d);
  const date = new Date(midnight);
  if (y < 100) throw unsupported('a year before 100');
  if (date.getUTCMonth() !== mo - 1 || date.getUTCDate() !== d || mi > 59 || s > 60 || h > 24)
    throw fieldOverflow();
  const offset = Number(parts[10] ?? 0) * 60 + Number(parts[11] ?? 0);
  if (Number(parts[10] ?? 0) > 15 || Number(parts[11] ?? 0) > 59)
    throw new EvaluationError('22009', 'time zone displacement out of range');
  const micros = BigInt(roundHalfEven(Number(`0.${fraction || '0'}`) * 1e6));
  if (h === 24 && (mi > 0 || s > 0 || micros > 0n)) throw fieldOverflow();
  const seconds = midnight / 1000 + h * 3600 + mi * 60 + s - (sign === '-' ? -offset : offset) * 60;
  return BigInt(seconds) * microsPerSecond + micros;
}

function fieldOverflow(): EvaluationError {
  return new EvaluationError('22008', 'date/time field value out of range');
}

const epoch2000Micros = 946_684_800_000_000n;
/** PostgreSQL's range: 4714-11-24 BC to the end of 294276, in its microseconds since 2000. */
const timestampMin = -211_813_488_000_000_000n + epoch2000Micros;
const timestampEnd = 9_223_371_331_200_000_000n + epoch2000Micros;

function checkedTimestamp(micros: bigint): bigint {
  if (micros < timestampMin || micros >= timestampEnd)
    throw new EvaluationError('22008', 'timestamp out of range');
  return micros;
}

/** `to_timestamp(double precision)`: seconds since 1970, computed in doubles as in PostgreSQL. */
export function toTimestamp(seconds: number): bigint {
  if (!Number.isFinite(seconds)) throw unsupported('a timestamp that is not finite');
  // The bounds of float8_timestamptz; the products below remain exact integers in a double or are refused.
  if (seconds < -210_866_803_200 || seconds >= 9_224_318_016_000) {
    throw new EvaluationError('22008', 'timestamp out of range');
  }
  const micros = roundHalfEven((seconds - 946_684_800) * 1e6);
  return checkedTimestamp(BigInt(micros) + epoch2000Micros);
}

export function addInterval(timestamp: bigint, interval: bigint): bigint {
  return checkedTimestamp(timestamp + interval);
}

export function subtractTimestamps(a: bigint, b: bigint): bigint {
  const micros = a - b;
  if (micros < -(2n ** 63n) || micros >= 2n ** 63n)
    throw new EvaluationError('22008', 'interval out of range');
  return micros;
}

export function timestampOfMs(ms: number): bigint {
  return BigInt(Math.round(ms * 1000));
}

/** As PostgreSQL prints it with DateStyle ISO and TimeZone UTC. */
export function printTimestamp(micros: bigint): string {
  let seconds = micros / microsPerSecond;
  let fraction = micros % microsPerSecond;
  if (fraction < 0n) {
    fraction += microsPerSecond;
    seconds -= 1n;
  }
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1) throw unsupported('printing this timestamp');
  const two = (n: number): string => n.toString().padStart(2, '0');
  const day = `${date.getUTCFullYear().toString().padStart(4, '0')}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  const digits = fraction === 0n ? '' : `.${fraction.toString().padStart(6, '0').replace(/0+$/, '')}`;
  return `${day} ${time}${digits}+00`;
}

const intervalUnits: Readonly<Record<string, bigint>> = {
  microsecond: 1n,
  us: 1n,
  millisecond: 1_000n,
  ms: 1_000n,
  second: microsPerSecond,
  sec: microsPerSecond,
  s: microsPerSecond,
  minute: 60n * microsPerSecond,
  min: 60n * microsPerSecond,
  m: 60n * microsPerSecond,
  hour: 3_600n * microsPerSecond,
  hr: 3_600n * microsPerSecond,
  h: 3_600n * microsPerSecond,
  day: 86_400n * microsPerSecond,
  d: 86_400n * microsPerSecond,
  week: 604_800n * microsPerSecond,
  w: 604_800n * microsPerSecond,
};

/** Whole numbers of units from microseconds to weeks, such as `5 minutes` or `1 hour 30 min`. */
export function parseInterval(text: string): bigint {
  const form = /\s*([+-]?\d{1,9})\s*([a-z]+)\s*/iy;
  if (text.length > 64 || text.trim() === '') throw unsupported('this interval');
  let micros = 0n;
  while (form.lastIndex < text.length) {
    const parts = form.exec(text);
    const name = (parts?.[2] ?? '').toLowerCase();
    const unit = intervalUnits[name] ?? intervalUnits[name.replace(/s$/, '')];
    if (parts === null || unit === undefined) throw unsupported('this interval: write it like 5 minutes');
    micros += BigInt(parts[1] ?? 0) * unit;
  }
  return micros;
}
