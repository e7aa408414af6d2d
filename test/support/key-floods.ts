/**
 * Keys of JSON objects that are chosen to be slow: for the hash table in which PostgreSQL's json_to_recordset keeps them, for
 * the quicksort with which jsonb orders them, and for the hash tables of V8.
 */

/**
 * Texts that look like numbers, with equal low bits: V8 hashed them without a seed (fixed in Node 20.20.2, 22.22.2, 24.14.1).
 */
export function likeNumbers(count: number): string[] {
  return Array.from({ length: count }, (_, i) => String(1_000_000_000 + i * 2 ** 16));
}

/** An object with these keys in this order. */
export function objectOf(keys: readonly string[], first = ''): string {
  return `{${first}${keys.map((key) => `${JSON.stringify(key)}:1`).join(',')}}`;
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Keys of one length in an order in which PostgreSQL's quicksort (sort_template.h) needs a number of comparisons of one twelfth
 * of the square of their number. After M. D. McIlroy, "A Killer Adversary for Quicksort" (1999): the adversary that answers the
 * comparisons decides only then, and always such that the pivot is one of the smallest.
 */
export function slowToSort(count: number): string[] {
  return Array.from(new Adversary(count).ranks(), (rank) => {
    const digit = (place: number) => digits[Math.floor(rank / 62 ** place) % 62] ?? '';
    return digit(3) + digit(2) + digit(1) + digit(0);
  });
}

class Adversary {
  readonly #undecided: number;
  readonly #rank: Int32Array;
  readonly #items: Int32Array;
  #decided = 0;
  #candidate = 0;

  constructor(count: number) {
    this.#undecided = count;
    this.#rank = new Int32Array(count).fill(count);
    this.#items = Int32Array.from({ length: count }, (_, i) => i);
  }

  ranks(): Int32Array {
    this.#sort(0, this.#items.length);
    return this.#rank;
  }

  #rankAt(place: number): number {
    return this.#rank[this.#items[place]!]!;
  }

  #compare(a: number, b: number): number {
    const [x, y] = [this.#items[a]!, this.#items[b]!];
    const rank = this.#rank;
    if (rank[x] === this.#undecided && rank[y] === this.#undecided)
      rank[x === this.#candidate ? x : y] = this.#decided++;
    if (rank[x] === this.#undecided) this.#candidate = x;
    else if (rank[y] === this.#undecided) this.#candidate = y;
    return rank[x]! - rank[y]!;
  }

  #swap(a: number, b: number): void {
    const items = this.#items;
    [items[a], items[b]] = [items[b]!, items[a]!];
  }

  #middle(a: number, b: number, c: number): number {
    if (this.#compare(a, b) < 0) {
      if (this.#compare(b, c) < 0) return b;
      return this.#compare(a, c) < 0 ? c : a;
    }
    if (this.#compare(b, c) > 0) return b;
    return this.#compare(a, c) < 0 ? a : c;
  }

  /** The check for sorted input: two that are out of order must be found at once. */
  #isSorted(start: number, end: number): boolean {
    for (let i = start + 1; i < end; i++) {
      if (this.#rankAt(i - 1) === this.#undecided && this.#rankAt(i) === this.#undecided)
        this.#rank[this.#items[i]!] = this.#decided++;
      if (this.#compare(i - 1, i) > 0) return false;
    }
    return true;
  }

  #pivot(start: number, n: number): number {
    const [half, last, eighth] = [start + (n >> 1), start + n - 1, n >> 3];
    if (n <= 7) return half;
    if (n <= 40) return this.#middle(start, half, last);
    return this.#middle(
      this.#middle(start, start + eighth, start + 2 * eighth),
      this.#middle(half - eighth, half, half + eighth),
      this.#middle(last - 2 * eighth, last - eighth, last),
    );
  }

  #sort(start: number, n: number): void {
    const end = start + n;
    if (n < 7) {
      for (let i = start + 1; i < end; i++)
        for (let j = i; j > start && this.#compare(j - 1, j) > 0; j--) this.#swap(j, j - 1);
      return;
    }
    if (this.#isSorted(start, end)) return;
    this.#swap(start, this.#pivot(start, n));
    // No two are equal, so none are gathered at the ends.
    let [low, high] = [start + 1, end - 1];
    for (;;) {
      while (low <= high && this.#compare(low, start) <= 0) low++;
      while (low <= high && this.#compare(high, start) >= 0) high--;
      if (low > high) break;
      this.#swap(low++, high--);
    }
    this.#swap(start, low - 1);
    this.#sort(start, low - 1 - start);
    this.#sort(low, end - low);
  }
}

const rotated = (x: number, by: number) => (x << by) | (x >>> (32 - by));

/**
 * Keys of 24 letters and signs that all have the same 32-bit hash in PostgreSQL (hash_bytes, which is Bob Jenkins's lookup3,
 * without a seed; dynahash's string_hash applies it to the first 63 bytes). Each half is made separately: the state after the
 * first half, and the states from which a second half leads to the hash, because every step is reversible.
 */
export function colliding(count: number, random: () => number): string[] {
  const word = () => Math.floor(random() * 2 ** 32) | 0;
  const letters = () =>
    Buffer.from(Array.from({ length: 4 }, () => 97 + Math.floor(random() * 26))).readInt32LE();
  // One in 170,000 pairs consists of characters that need no escape.
  const wanted = Math.ceil(Math.sqrt(count * 180_000));
  const ends = new Int32Array(wanted * 3);
  for (let i = 0; i < wanted; i++) ends.set(undone(word(), word(), 0x12345678), i * 3);
  const keys: string[] = [];
  while (keys.length < count) {
    const first = [letters(), letters(), letters()] as const;
    const state = mixed(first);
    for (let i = 0; i < ends.length && keys.length < count; i += 3) {
      const a = ends[i]! - state[0];
      if (isPlain(a) && isPlain(ends[i + 1]! - state[1]) && isPlain(ends[i + 2]! - state[2]))
        keys.push(text([...first, a, ends[i + 1]! - state[1], ends[i + 2]! - state[2]]));
    }
  }
  return keys;
}

/** Four bytes that are printable ASCII, without quotes and backslashes. */
function isPlain(word: number): boolean {
  return isPlainPair[word & 0xffff] === 1 && isPlainPair[word >>> 16] === 1;
}

const isPlainByte = (byte: number) => byte >= 32 && byte < 127 && byte !== 34 && byte !== 92;
const isPlainPair = Uint8Array.from({ length: 65_536 }, (_, pair) =>
  isPlainByte(pair & 255) && isPlainByte(pair >> 8) ? 1 : 0,
);

function text(words: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(4 * words.length);
  words.forEach((word, i) => bytes.writeInt32LE(word | 0, 4 * i));
  return bytes.toString('latin1');
}

type State = [a: number, b: number, c: number];

/** 0x9e3779b9 and 3923095 are constants of hash_bytes, 24 is the length of the key. */
const initial = (0x9e3779b9 + 24 + 3_923_095) | 0;

/** The state of hash_bytes after twelve bytes. */
function mixed(words: readonly [number, number, number]): State {
  let [a, b, c] = words.map((word) => (initial + word) | 0) as State;
  for (const [i, by] of [4, 6, 8, 16, 19, 4].entries()) {
    // The three take turns.
    if (i % 3 === 0) [a, c] = [((a - c) | 0) ^ rotated(c, by), (c + b) | 0];
    else if (i % 3 === 1) [b, a] = [((b - a) | 0) ^ rotated(a, by), (a + c) | 0];
    else [c, b] = [((c - b) | 0) ^ rotated(b, by), (b + a) | 0];
  }
  return [a, b, c];
}

/** The state that ends as this one after the next twelve bytes are added; the last of the three is the hash. */
function undone(a: number, b: number, c: number): State {
  c = (c + rotated(b, 24)) ^ b;
  b = (b + rotated(a, 14)) ^ a;
  a = (a + rotated(c, 4)) ^ c;
  c = (c + rotated(b, 16)) ^ b;
  b = (b + rotated(a, 25)) ^ a;
  a = (a + rotated(c, 11)) ^ c;
  c = (c + rotated(b, 14)) ^ b;
  for (const [i, by] of [4, 19, 16, 8, 6, 4].entries()) {
    if (i % 3 === 0) {
      b = (b - a) | 0;
      c = ((c ^ rotated(b, by)) + b) | 0;
    } else if (i % 3 === 1) {
      a = (a - c) | 0;
      b = ((b ^ rotated(a, by)) + a) | 0;
    } else {
      c = (c - b) | 0;
      a = ((a ^ rotated(c, by)) + c) | 0;
    }
  }
  return [a, b, c];
}
