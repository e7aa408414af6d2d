/** The one time zone of all pages and of SQL results: the browser's, UTC, the database's, or another one. Remembered in this browser. */
import { computed, effect, signal } from '@preact/signals';

const key = 'headgate-zone';
const ofBrowser = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `browser`, `UTC`, or a name of the IANA database. */
export const zone = signal(localStorage.getItem(key) ?? 'browser');
export const zoneName = computed(() => {
  const name = zone.value === 'browser' ? ofBrowser : zone.value;
  return isZone(name) ? name : 'UTC';
});

export function isZone(name: string): boolean {
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return name !== '';
  } catch {
    return false;
  }
}

export const watchZone = (): void => void effect(() => localStorage.setItem(key, zone.value));

const formats = new Map<string, Intl.DateTimeFormat>();

function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const name = `${zoneName.value} ${JSON.stringify(options)}`;
  const known = formats.get(name);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat('en-GB', { timeZone: zoneName.value, ...options });
  formats.set(name, made);
  return made;
}

const minute = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
const day = { weekday: 'short', day: 'numeric', month: 'short' } as const;

/** `14:09:13` */
export const clockText = (ms: number): string => format({ ...minute, second: '2-digit' }).format(ms);
/** `14:09` */
export const minuteText = (ms: number): string => format(minute).format(ms);
/** `Wed 25 Nov` */
export const dayText = (ms: number): string => format(day).format(ms).replace(',', '');
/** `Wed 25 Nov 14:09:13` */
export const timeText = (ms: number): string => `${dayText(ms)} ${clockText(ms)}`;
/** For a tooltip: the time here, in ISO 8601, and in seconds since 1970. */
export const wholeText = (ms: number): string =>
  `${timeText(ms)} (${zoneName.value})\n${new Date(ms).toISOString()}\n${ms / 1_000}`;

/** `Berlin, UTC+1` */
export function zoneText(name: string = zoneName.value): string {
  const offset = new Intl.DateTimeFormat('en', { timeZone: name, timeZoneName: 'shortOffset' })
    .formatToParts(Date.now())
    .find(({ type }) => type === 'timeZoneName')?.value;
  const place = name.split('/').at(-1)?.replaceAll('_', ' ') ?? name;
  return offset === undefined || name === 'UTC' ? place : `${place}, ${offset.replace('GMT', 'UTC')}`;
}

/** What a field of date and time holds, which means the page's zone, in ISO 8601; '' if it is empty. */
export function isoOf(local: string): string {
  const guess = Date.parse(`${local}Z`);
  if (Number.isNaN(guess)) return '';
  const parts = format({
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    ...minute,
    second: '2-digit',
  }).formatToParts(guess);
  const of = (type: string): string => parts.find((it) => it.type === type)?.value ?? '';
  const there = `${of('year')}-${of('month')}-${of('day')}T${of('hour')}:${of('minute')}:${of('second')}Z`;
  return new Date(2 * guess - Date.parse(there)).toISOString();
}
