/** One header of a request, from the source that needs the least work. */

interface Headers {
  /** Names and values in turn, as received. Reading the property may create them. */
  readonly rawHeaders: readonly string[];
  /** By its lower-case name; null: absent; undefined: received more than once. */
  readonly header?: ((name: string) => string | null | undefined) | undefined;
}

/** `name` in lower case. null: absent; undefined: received more than once. */
export function onlyHeader(request: Headers, name: string): string | null | undefined {
  if (request.header !== undefined) return request.header(name);
  const { rawHeaders } = request;
  let found: string | null = null;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!isNamed(rawHeaders[at] ?? '', name)) continue;
    if (found !== null) return undefined;
    found = rawHeaders[at + 1] ?? '';
  }
  return found;
}

/** The first header of that name; null: absent. */
export function firstHeader(request: Headers, name: string): string | null {
  const only = onlyHeader(request, name);
  if (only !== undefined) return only;
  const { rawHeaders } = request;
  const at = rawHeaders.findIndex((it, i) => i % 2 === 0 && isNamed(it, name));
  return rawHeaders[at + 1] ?? null;
}

/** Whether a name as received is `wanted`, which is already in lower case. */
export function isNamed(received: string, wanted: string): boolean {
  if (received.length !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) {
    const code = received.charCodeAt(i);
    const lower = code >= 65 && code <= 90 ? code + 32 : code;
    if (lower !== wanted.charCodeAt(i)) return false;
  }
  return true;
}
