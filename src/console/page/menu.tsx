/** A menu under a button: closes on Escape, and when the focus leaves it. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

interface Props {
  readonly label: ComponentChildren;
  /** Classes of the button. */
  readonly kind?: string;
  readonly hotkey?: string;
  readonly children: (close: () => void) => ComponentChildren;
}

export function Menu({ label, kind = 'chip', hotkey, children }: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (open) place.current?.querySelector<HTMLElement>('.menu input, .menu button')?.focus();
  }, [open]);
  return (
    <span
      class="menu-of"
      ref={place}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !open) return;
        event.stopPropagation();
        close();
      }}
      onFocusOut={(event) => {
        if (event.relatedTarget instanceof Node && place.current?.contains(event.relatedTarget) !== true)
          setOpen(false);
      }}
    >
      <button
        ref={button}
        type="button"
        class={kind}
        aria-expanded={open}
        data-key={hotkey}
        onClick={() => setOpen(!open)}
      >
        {label}
      </button>
      {open ? <div class="menu">{children(close)}</div> : null}
    </span>
  );
}

interface ChosenProps {
  readonly label: string;
  readonly clear: () => void;
  readonly children: ComponentChildren;
}

/** A chip with a value, which stands instead of its menu. */
export function Chosen({ label, clear, children }: ChosenProps): JSX.Element {
  return (
    <span class="chip on">
      {label} <b>{children}</b>
      <button type="button" class="clear" aria-label={`Clear ${label}`} onClick={clear}>
        ×
      </button>
    </span>
  );
}

interface ChoiceProps {
  /** It is what counts now. */
  readonly on: boolean;
  readonly choose: () => void;
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** One of several, of which one counts. */
export function Choice({ on, choose, note, children }: ChoiceProps): JSX.Element {
  return (
    <button type="button" class="choice" aria-pressed={on} onClick={choose}>
      <span class="grow">{children}</span>
      <span class="faint">{note}</span>
      <span class="tick" aria-hidden="true">
        {on ? '✓' : ''}
      </span>
    </button>
  );
}
