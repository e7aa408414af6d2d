/** Functions that remember what they made: of texts, and of objects. */

const charsMax = 512;

/**
 * A function of a text that remembers what it made of each, because the same few texts come again and again. Forgets everything
 * when it knows too many; long texts, which are nobody's who sends often, and what throws are not remembered.
 */
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

/** A function of an object that remembers what it made of each for as long as the object lives. Where that is a key, it is also hashed once. */
export function rememberedOf<O extends object, T>(make: (of: O) => T): (of: O) => T {
  const known = new WeakMap<O, T>();
  return (of) => {
    const before = known.get(of);
    if (before !== undefined) return before;
    const made = make(of);
    known.set(of, made);
    return made;
  };
}
