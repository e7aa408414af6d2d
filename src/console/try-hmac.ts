/**
 * Tries a form of the wizard (custom-hmac.ts) on a request and a secret, and a few dozen other ways to sign it if it does not fit. Takes all three
 * and the time, returns what is right and what is not; keeps and tells no secret and no signature. Pure.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { HmacTrial, HmacVerdict } from './api.ts';
import { algorithms, encodings } from './custom-hmac.ts';
import type { HmacForm, SignedPart, TriedRequest } from './custom-hmac.ts';

type TrialSteps = HmacVerdict['steps'][number][];

export function tryHmac({ form, secret, request }: HmacTrial, nowMs: number): HmacVerdict {
  const headers = new Map(request.headers.map(([name, value]) => [name.toLowerCase(), value]));
  const given = headers.get(form.header);
  const steps: TrialSteps = [];
  if (form.timeHeader !== '') steps.push(timeStep(form, headers.get(form.timeHeader), nowMs));
  if (given === undefined) {
    steps.push({ ok: false, text: `the request has no header ${form.header}` });
    return { steps, fits: null };
  }
  if (form.prefix !== '') {
    const begins = given.startsWith(form.prefix);
    steps.push({
      ok: begins,
      text: `${form.header} ${begins ? 'begins' : 'does not begin'} with ${form.prefix}`,
    });
  }
  const isRight = fits(form, secret, headers, request, given);
  steps.push({ ok: isRight, text: isRight ? 'the signature is right' : 'the signature differs' });
  if (isRight) return { steps, fits: null };
  const other = variants(form, given, headers).find((it) => fits(it, secret, headers, request, given));
  return { steps, fits: other ?? null };
}

function timeStep(
  { timeHeader, ageS }: HmacForm,
  text: string | undefined,
  nowMs: number,
): TrialSteps[number] {
  if (text === undefined) return { ok: false, text: `the request has no header ${timeHeader}` };
  if (!/^-?\d{1,15}$/.test(text))
    return { ok: false, text: `${timeHeader} is not a time in seconds since 1970` };
  const age = Math.round(nowMs / 1_000 - Number(text));
  const when = age < 0 ? `${-age} s in the future` : `${age} s old`;
  return Math.abs(age) <= ageS
    ? { ok: true, text: `${timeHeader} is ${when}` }
    : { ok: false, text: `${timeHeader} is ${when}; the limit is ${ageS}` };
}

function fits(
  form: HmacForm,
  secret: string,
  headers: ReadonlyMap<string, string>,
  { body }: TriedRequest,
  given: string,
): boolean {
  const hmac = createHmac(form.algorithm, secret);
  for (const part of form.signed) {
    if (part.kind === 'body') hmac.update(Buffer.from(body, 'base64'));
    else if (part.kind === 'text') hmac.update(part.text);
    else {
      const value = headers.get(part.name);
      if (value === undefined) return false;
      hmac.update(value);
    }
  }
  const wanted = Buffer.from(`${form.prefix}${hmac.digest(form.encoding)}`);
  const had = Buffer.from(given);
  return wanted.length === had.length && timingSafeEqual(wanted, had);
}

/** Ways in which a body is signed that are tried at most. */
export const variantsMax = 96;

/** Other algorithms, encodings and prefixes, and what else is usually signed. */
function variants(form: HmacForm, given: string, headers: ReadonlyMap<string, string>): readonly HmacForm[] {
  const body: SignedPart = { kind: 'body' };
  const text = (it: string): SignedPart => ({ kind: 'text', text: it });
  const times = [...headers.keys()].filter((name) => /^\d{10}$/.test(headers.get(name) ?? '')).slice(0, 1);
  const signed: readonly (readonly SignedPart[])[] = [
    form.signed,
    [body],
    ...times.flatMap((name) => {
      const time: SignedPart = { kind: 'header', name };
      return [
        [time, body],
        [time, text('.'), body],
        [time, text(':'), body],
        [text('v0:'), time, text(':'), body],
      ];
    }),
  ];
  const prefix = /^[A-Za-z0-9-]+=(?=.)/.exec(given)?.[0] ?? '';
  const prefixes = [...new Set([form.prefix, prefix])];
  return signed.flatMap((parts) =>
    algorithms.flatMap((algorithm) =>
      encodings.flatMap((encoding) =>
        prefixes.map((it) => {
          const isTimeSigned = parts.some((part) => part.kind === 'header' && part.name === form.timeHeader);
          const timeHeader = isTimeSigned ? form.timeHeader : '';
          return { ...form, signed: parts, algorithm, encoding, prefix: it, timeHeader };
        }),
      ),
    ),
  );
}
