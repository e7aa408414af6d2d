/** The names most similar to one that is unknown, for the hint of an error. Pure. */

/** Best first, letters and digits alone compared. A short name has none: too much is similar to it. */
export function nearestNames(unknown: string, known: Iterable<string>): string[] {
  const wanted = letters(unknown).slice(0, nameCharsMax);
  if (wanted.length < nearMinChars) return [];
  return [...known]
    .map((name) => ({ name, far: howFar(wanted, letters(name)) }))
    .filter(({ far }) => far < Infinity)
    .toSorted((a, b) => a.far - b.far)
    .map(({ name }) => name);
}

const nearMinChars = 4;
const nameCharsMax = 64;

const letters = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');

function howFar(wanted: string, other: string): number {
  const far = distance(wanted, other);
  if (other.includes(wanted)) return far;
  // stripe_events: of stripe.
  if (other.length >= nearMinChars && wanted.startsWith(other)) return far;
  return wanted[0] === other[0] && far <= (wanted.length < 6 ? 1 : 2) ? far : Infinity;
}

/** The number of letters to change, add or remove (Levenshtein). */
export function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
