/** A text that is typed, and applied after a pause. */
import { useEffect, useRef, useState } from 'preact/hooks';

const pauseMs = 250;

export function useTyped(value: string, set: (value: string) => void): [string, (value: string) => void] {
  const [typed, setTyped] = useState(value);
  const known = useRef(value);
  useEffect(() => {
    // Somebody may have typed before the first effects run.
    if (known.current !== value) setTyped(value);
    known.current = value;
  }, [value]);
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => set(typed), pauseMs);
    return () => clearTimeout(timer);
  }, [typed]);
  return [typed, setTyped];
}
