/**
 * Guesses the sender of a request from the names of its headers: a sender is recognised by the header with its
 * signature, if few others use the same one. Takes names, returns senders, the most likely first. Pure.
 */
export interface SenderHeaders {
  readonly id: string;
  readonly name: string;
  /** The headers that its check reads, and the one with its signature; null: in the body or in the URL. */
  readonly headers: readonly string[];
  readonly signatureHeader: string | null;
}

/** Names that do not identify a sender. */
const common = new Set([
  'authorization',
  'content-type',
  'user-agent',
  'x-api-key',
  'api-key',
  'x-token',
  'x-signature',
  'x-hub-signature',
  'x-webhook-signature',
  'signature',
  'x-webhook-secret',
  'date',
  'digest',
]);
const alikeMax = 3;

const bare = (name: string) => name.toLowerCase().replace(/^x-/, '');

export function recognised(
  names: readonly string[],
  senders: readonly SenderHeaders[],
): readonly SenderHeaders[] {
  const there = new Set(names.map((name) => name.toLowerCase()));
  const fits = senders.filter(({ signatureHeader, headers }) => {
    const signature = signatureHeader?.toLowerCase();
    if (signature === undefined || common.has(signature)) return false;
    // A header that some of its requests have without `X-` is one header.
    const isThere = (name: string) =>
      [name, ...headers.filter((other) => bare(other) === bare(name))].some((it) =>
        there.has(it.toLowerCase()),
      );
    return isThere(signature) && headers.every(isThere);
  });
  // A sender that reads more of the present headers is more likely.
  const most = Math.max(0, ...fits.map(({ headers }) => headers.length));
  const best = fits.filter(({ headers }) => headers.length === most);
  return best.length > alikeMax ? [] : best;
}
