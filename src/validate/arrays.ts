/** `text[]` from its text form: one dimension, elements bare or in double quotes, NULL bare. */
import { EvaluationError, unsupported } from './errors.ts';

function malformed(): EvaluationError {
  return new EvaluationError('22P02', 'malformed array literal');
}

const space = ' \t\n\v\f\r';

class ArrayReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): (string | null)[] {
    this.#skip();
    if (this.#text[this.#at] === '[') throw unsupported('array bounds');
    if (this.#text[this.#at] !== '{') throw malformed();
    this.#at++;
    const items = this.#items();
    this.#skip();
    if (this.#at < this.#text.length) throw malformed();
    return items;
  }

  #skip(): void {
    while (this.#at < this.#text.length && space.includes(this.#text[this.#at] ?? '')) this.#at++;
  }

  #items(): (string | null)[] {
    const items: (string | null)[] = [];
    this.#skip();
    if (this.#text[this.#at] === '}') {
      this.#at++;
      return items;
    }
    for (;;) {
      this.#skip();
      if (this.#text[this.#at] === '{') throw unsupported('an array of several dimensions');
      items.push(this.#text[this.#at] === '"' ? this.#quoted() : this.#bare());
      this.#skip();
      const next = this.#text[this.#at++];
      if (next === '}') return items;
      if (next !== ',') throw malformed();
    }
  }

  #quoted(): string {
    let item = '';
    for (this.#at++; ; this.#at++) {
      let symbol = this.#text[this.#at];
      if (symbol === '"') {
        this.#at++;
        return item;
      }
      if (symbol === '\\') symbol = this.#text[++this.#at];
      if (symbol === undefined) throw malformed();
      item += symbol;
    }
  }

  /** Blanks inside are kept, blanks at the end are dropped unless escaped; NULL in upper or lower case is NULL. */
  #bare(): string | null {
    let item = '';
    let keep = 0;
    let escaped = false;
    for (; ; this.#at++) {
      let symbol = this.#text[this.#at];
      if (symbol === undefined || symbol === '"' || symbol === '{') throw malformed();
      if (symbol === ',' || symbol === '}') break;
      if (symbol === '\\') {
        escaped = true;
        symbol = this.#text[++this.#at];
        if (symbol === undefined) throw malformed();
        item += symbol;
        keep = item.length;
      } else {
        item += symbol;
        if (!space.includes(symbol)) keep = item.length;
      }
    }
    item = item.slice(0, keep);
    if (item === '') throw malformed();
    return !escaped && item.toLowerCase() === 'null' ? null : item;
  }
}

export function parseTextArray(text: string): readonly (string | null)[] {
  return new ArrayReader(text).read();
}

/** As PostgreSQL prints an array. */
export function printTextArray(items: readonly (string | null)[]): string {
  const printed = items.map((item) => {
    if (item === null) return 'NULL';
    const bare = item !== '' && item.toLowerCase() !== 'null' && !/[{}",\\ \t\n\v\f\r]/.test(item);
    return bare ? item : `"${item.replaceAll(/["\\]/g, '\\$&')}"`;
  });
  return `{${printed.join(',')}}`;
}
