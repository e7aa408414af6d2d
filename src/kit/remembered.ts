/**
 * A function of a text that remembers what it made of each, because the same few texts come again and again. Forgets everything
 * when it knows too many; long texts, which are nobody's who sends often, and what throws are not remembered.
 */
const charsMax = 512;

export function remembered<T>(make: (text: string) => T, max: number): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    const made = make(text);
    if (text.length > charsMax) return made;
    if (known.size >= max) known.clear();
    known.set(text, made);
    return made;
  };
}
