/** Passes each line of a stream that is not empty to `say`; of a line longer than `charsMax` only the beginning. Errors end it silently. */
export function readLines(
  stream: NodeJS.ReadableStream,
  charsMax: number,
  say: (line: string) => void,
): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    // What exceeds the bound is dropped, even before the end of a long line has arrived.
    rest = (lines.pop() ?? '').slice(0, charsMax);
    for (const line of lines) if (line !== '') say(line.slice(0, charsMax));
  });
  stream.on('error', () => undefined);
}
