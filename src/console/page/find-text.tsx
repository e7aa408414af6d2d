/** A field for what is searched on a page, with the key that leads to it. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './icons.tsx';

interface Props {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly set: (value: string) => void;
}

export function SearchField({ label, placeholder, value, set }: Props): JSX.Element {
  return (
    <span class="search">
      <Icon name="search" />
      <input
        data-search
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </span>
  );
}

const pauseMs = 250;

/** A text that is typed, and applied after a pause. */
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
