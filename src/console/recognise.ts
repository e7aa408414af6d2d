/**
 * Whose request it may be, by the names of its headers: a sender is recognised by the header that holds its signature,
 * where few others have the same. Takes names, gives senders, the likeliest first. Pure.
 */
export interface SenderHeaders {
  readonly id: string;
  readonly name: string;
  /** Those that its check reads, and where its signature stands; null: in the body or in the URL. */
  readonly headers: readonly string[];
  readonly signatureHeader: string | null;
}

/** Names that say nothing of who sends. */
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

export function recognised(
  names: readonly string[],
  senders: readonly SenderHeaders[],
): readonly SenderHeaders[] {
  const there = new Set(names.map((name) => name.toLowerCase()));
  const fits = senders.filter(({ signatureHeader, headers }) => {
    const signature = signatureHeader?.toLowerCase();
    if (signature === undefined || common.has(signature) || !there.has(signature)) return false;
    return headers.every((name) => there.has(name.toLowerCase()));
  });
  // One that reads more of the headers that are there says more of them.
  const most = Math.max(0, ...fits.map(({ headers }) => headers.length));
  const best = fits.filter(({ headers }) => headers.length === most);
  return best.length > alikeMax ? [] : best;
}
