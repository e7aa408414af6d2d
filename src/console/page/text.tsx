/** Text that anybody may have written: text nodes, in which invisible characters are marks. */
import type { JSX } from 'preact';
import { cut, pieces } from '../visible-text.ts';

export function Text({ of, max = 10_000 }: { readonly of: string; readonly max?: number }): JSX.Element {
  const { text, whole } = cut(of, max);
  return (
    <>
      {pieces(text).map((piece) => (piece.mark ? <span class="mark">{piece.text}</span> : piece.text))}
      {whole ? null : '…'}
    </>
  );
}
