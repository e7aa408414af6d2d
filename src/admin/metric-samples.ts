/** Parses the text of `/metrics`, which covers all processes: takes the text, returns its samples. Pure. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

export function samplesOf(text: string): Sample[] {
  return text.split('\n').flatMap(sampleOf);
}

function sampleOf(line: string): Sample[] {
  const read = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
  if (read === null) return [];
  const [, name = '', inside = '', value = ''] = read;
  const labels = [...inside.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)];
  return [
    {
      name,
      labels: new Map(labels.map(([, key = '', said = '']) => [key, plain(said)])),
      value: Number(value),
    },
  ];
}

function plain(said: string): string {
  return said.replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
}
