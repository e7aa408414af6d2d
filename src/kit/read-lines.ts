/** Says each line of a stream that is not empty; of one longer than `charsMax` only the beginning. Errors end it silently. */
export function readLines(
  stream: NodeJS.ReadableStream,
  charsMax: number,
  say: (line: string) => void,
): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    // What exceeds the bound is left out, also while the end of a long line has not come yet.
    rest = (lines.pop() ?? '').slice(0, charsMax);
    for (const line of lines) if (line !== '') say(line.slice(0, charsMax));
  });
  stream.on('error', () => undefined);
}
