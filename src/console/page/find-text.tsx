/** A field for what is searched on a page, with the key that leads to it. */
import type { JSX } from 'preact';
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
