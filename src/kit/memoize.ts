/** Functions that remember their results: for texts, and for objects. */

const charsMax = 512;

/**
 * A function of a text that remembers its results, because the same few texts recur. Forgets everything when it knows too many.
 * Long texts, which no frequent sender has, and calls that throw are not remembered.
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

/** A function of an object that remembers its result for as long as the object lives. A result that is used as a key is also hashed only once. */
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
