/**
 * A request as a command for a shell, to be copied. Its parts come from strangers: curl reads no file and expands no pattern because of
 * them, and no character of the command acts on the terminal into which it is pasted. Takes a request, returns text. Pure.
 */
import { shellWord } from './quote.ts';

export interface CurlRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
}

export function curlOf({ method, url, headers, body }: CurlRequest): string {
  const text = shownText(body);
  const [before, data] =
    text === null
      ? [`printf %s ${base64Of(body)} | base64 -d | `, '--data-binary @-']
      : // After --data-binary a text that begins with @ would be the name of a file.
        ['', `--data-raw ${shellWord(text)}`];
  return [
    // Without --globoff brackets of a query would stand for many requests.
    `${before}curl --globoff -X ${shellWord(method)} ${shellWord(url)}`,
    ...headers.map(([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`),
    data,
  ].join(' \\\n  ');
}

/** null: it is not text, or there is a character in it that a terminal acts on. */
function shownText(body: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return /[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/u.test(text) ? null : text;
  } catch {
    return null;
  }
}

function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return shellWord(btoa(text));
}
