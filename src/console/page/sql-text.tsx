/** SQL in colours, as text nodes; invisible characters are marks. */
import type { JSX } from 'preact';
import { cut } from '../visible-text.ts';
import { sqlPieces } from '../sql-tokens.ts';
import type { SqlPiece } from '../sql-tokens.ts';
import { Text } from './text.tsx';

/** What is longer has no colours: each piece is an element. */
const charsMax = 20_000;

export function SqlText({ of, max }: { readonly of: string; readonly max: number }): JSX.Element {
  const { text, whole } = cut(of, max);
  const parts: readonly SqlPiece[] = text.length > charsMax ? [{ text, kind: 'plain' }] : sqlPieces(text);
  return (
    <>
      {parts.map((part, i) => (
        <span key={i} class={`sql-${part.kind}`}>
          <Text of={part.text} max={max} />
        </span>
      ))}
      {whole ? null : '…'}
    </>
  );
}

/** Behind the field of the editor, line by line, letter for letter as it is there. */
export function EditorText({ of }: { readonly of: string }): JSX.Element | null {
  if (of.length > charsMax) return null;
  const lines: SqlPiece[][] = [[]];
  for (const { text, kind } of sqlPieces(of))
    text.split('\n').forEach((line, i) => {
      if (i > 0) lines.push([]);
      if (line !== '') lines.at(-1)?.push({ text: line, kind });
    });
  return (
    <pre aria-hidden="true">
      {lines.map((line, i) => (
        <div key={i}>
          {line.map(({ text, kind }, k) => (
            <span key={k} class={`sql-${kind}`}>
              {text}
            </span>
          ))}
        </div>
      ))}
    </pre>
  );
}
