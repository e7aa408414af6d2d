/** One header of a request, from whichever place tells it with the least work. */

interface Headers {
  /** Names and values in turn, as received. Asking for them may make them. */
  readonly rawHeaders: readonly string[];
  /** By its lower-case name; null: it did not come; undefined: it came more than once. */
  readonly header?: ((name: string) => string | null | undefined) | undefined;
}

/** `name` in lower case. null: it did not come; undefined: it came more than once. */
export function onlyHeader(request: Headers, name: string): string | null | undefined {
  if (request.header !== undefined) return request.header(name);
  const { rawHeaders } = request;
  let found: string | null = null;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== name) continue;
    if (found !== null) return undefined;
    found = rawHeaders[at + 1] ?? '';
  }
  return found;
}

/** The first of those that came. */
export function firstHeader(request: Headers, name: string): string | null {
  const only = onlyHeader(request, name);
  if (only !== undefined) return only;
  const { rawHeaders } = request;
  const at = rawHeaders.findIndex((it, i) => i % 2 === 0 && it.toLowerCase() === name);
  return rawHeaders[at + 1] ?? null;
}
