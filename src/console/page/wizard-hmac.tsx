/** The first step for an HMAC of one's own: a form that writes the check, and a request to try it on. The form is in the address, the secret is not. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { HmacVerdict } from '../api.ts';
import { algorithms, encodings, expressionOf, problemOf, readRequest } from '../custom-hmac.ts';
import type { HmacForm, SignedPart } from '../custom-hmac.ts';
import { useAsked } from './load.ts';
import { Area, Code, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { go, route } from './route.ts';
import { call } from './server.ts';
import { base64Of } from './value.tsx';

const ages = [
  [60, '1 minute'],
  [300, '5 minutes'],
  [900, '15 minutes'],
  [3_600, '1 hour'],
] as const;

export function OwnHmac({ form }: { readonly form: HmacForm }): JSX.Element {
  const set = (change: Partial<HmacForm>): void => {
    const query = { ...Object.fromEntries(route.value.query), form: JSON.stringify({ ...form, ...change }) };
    go(['new', 'hmac'], query, true);
  };
  const problem = problemOf(form);
  return (
    <div class="two even hmac">
      <div class="form">
        <Fields form={form} set={set} />
        <h3>The check that this writes</h3>
        <Code
          text={`VALIDATE SECRET my_secret AS\n  ${expressionOf(form, 'my_secret').replaceAll('\n', '\n  ')}`}
        />
        {problem === null ? null : (
          <p class="strip" role="status">
            {problem}
          </p>
        )}
      </div>
      <div class="form">
        <Trial form={form} set={set} />
        <button
          type="button"
          class="primary"
          disabled={problem !== null}
          onClick={() => go(['new', 'hmac'], { form: JSON.stringify(form), ready: '1' })}
        >
          Use this check
        </button>
        <span class="faint">Nothing is created before the next step.</span>
      </div>
    </div>
  );
}

interface FieldsProps {
  readonly form: HmacForm;
  readonly set: (change: Partial<HmacForm>) => void;
}

const nameOf = (text: string): string => text.trim().toLowerCase();

function Fields({ form, set }: FieldsProps): JSX.Element {
  return (
    <>
      <div class="row-of even">
        <label>
          Header with the signature
          <input
            value={form.header}
            spellcheck={false}
            onInput={(event) => set({ header: nameOf(event.currentTarget.value) })}
          />
        </label>
        <label>
          Algorithm
          <select
            value={form.algorithm}
            onChange={(event) =>
              set({ algorithm: algorithms.find((it) => it === event.currentTarget.value) ?? 'sha256' })
            }
          >
            {algorithms.map((it) => (
              <option key={it} value={it}>
                HMAC-{it.toUpperCase()}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div class="row-of even">
        <label>
          Written as
          <select
            value={form.encoding}
            onChange={(event) =>
              set({ encoding: encodings.find((it) => it === event.currentTarget.value) ?? 'hex' })
            }
          >
            <option value="hex">hexadecimal</option>
            <option value="base64">base64</option>
          </select>
        </label>
        <label>
          Before it
          <input
            value={form.prefix}
            placeholder="sha256="
            spellcheck={false}
            onInput={(event) => set({ prefix: event.currentTarget.value })}
          />
        </label>
      </div>
      <Signed form={form} set={set} />
      <Time form={form} set={set} />
    </>
  );
}

function Time({ form, set }: FieldsProps): JSX.Element {
  return (
    <div class="row-of even">
      <label>
        Header with the time (seconds since 1970)
        <input
          value={form.timeHeader}
          placeholder="none"
          spellcheck={false}
          onInput={(event) => set({ timeHeader: nameOf(event.currentTarget.value) })}
        />
      </label>
      <label>
        At most this old
        <select
          value={String(form.ageS)}
          disabled={form.timeHeader === ''}
          onChange={(event) => set({ ageS: Number(event.currentTarget.value) })}
        >
          {ages.map(([s, label]) => (
            <option key={s} value={String(s)}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Signed({ form, set }: FieldsProps): JSX.Element {
  const { signed } = form;
  const replace = (i: number, part: SignedPart | null): void =>
    set({ signed: signed.flatMap((it, at) => (at === i ? (part ?? []) : it)) });
  return (
    <fieldset>
      <legend>What is signed, in this order</legend>
      <div class="row-of wrap">
        {signed.map((part, i) => (
          <span key={i} class="part">
            {part.kind === 'body' ? (
              'body'
            ) : (
              <input
                class="narrow small"
                aria-label={part.kind === 'header' ? 'Signed header' : 'Signed text'}
                placeholder={part.kind === 'header' ? 'header' : 'text'}
                spellcheck={false}
                value={part.kind === 'header' ? part.name : part.text}
                onInput={(event) =>
                  replace(
                    i,
                    part.kind === 'header'
                      ? { kind: 'header', name: nameOf(event.currentTarget.value) }
                      : { kind: 'text', text: event.currentTarget.value },
                  )
                }
              />
            )}
            <button
              type="button"
              class="small quiet"
              aria-label={`Remove part ${i + 1}`}
              onClick={() => replace(i, null)}
            >
              ×
            </button>
          </span>
        ))}
        {(['header', 'text', 'body'] as const).map((kind) => (
          <button
            key={kind}
            type="button"
            class="small"
            disabled={signed.length >= 8}
            onClick={() =>
              set({
                signed: [
                  ...signed,
                  kind === 'body'
                    ? { kind }
                    : kind === 'header'
                      ? { kind, name: 'x-time' }
                      : { kind, text: '.' },
                ],
              })
            }
          >
            + {kind}
          </button>
        ))}
      </div>
    </fieldset>
  );
}

function Trial({ form, set }: FieldsProps): JSX.Element {
  const [text, setText] = useState('');
  const [secret, setSecret] = useState('');
  const { answer, failure, ask } = useAsked<HmacVerdict>();
  const start = (): void => {
    const { headers, body } = readRequest(text);
    const request = { headers, body: base64Of(new TextEncoder().encode(body)) };
    ask(call<HmacVerdict>('try-hmac', { body: { form, secret, request } }));
  };
  const isRight = answer !== null && answer.steps.every(({ ok }) => ok);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        start();
      }}
    >
      <Area
        label="Try it on a request of yours: a curl command; or headers, an empty line and the body"
        rows={8}
        value={text}
        change={setText}
      />
      <label>
        The secret that signed it <span class="faint">to try it; it is not kept</span>
        <input
          type="password"
          autocomplete="off"
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={text.trim() === '' || secret === '' || problemOf(form) !== null}>
        Try it
      </button>
      {failure === null ? null : <Wrong failure={failure} />}
      {answer === null ? null : (
        <div class={isRight ? 'verdict good' : 'verdict bad'} role="status">
          <b>With these settings it would be {isRight ? 'accepted' : 'refused'}.</b>
          {answer.fits === null ? null : (
            <p>
              It fits with <code>{describe(answer.fits)}</code>.{' '}
              <button type="button" class="small" onClick={() => set(answer.fits ?? {})}>
                Use that
              </button>
            </p>
          )}
          <ul class="list">
            {answer.steps.map((step) => (
              <li key={step.text}>
                {step.ok ? '✓' : '✗'} <Text of={step.text} max={300} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </form>
  );
}

function describe({ algorithm, encoding, prefix, signed }: HmacForm): string {
  const what = signed.map((part) =>
    part.kind === 'body' ? 'body' : part.kind === 'header' ? `header ${part.name}` : `“${part.text}”`,
  );
  return `${prefix}${encoding}(HMAC-${algorithm.toUpperCase()} of ${what.join(' + ')})`;
}
