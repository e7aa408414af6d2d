/** A dialog that is shown while a signal says so. */
import type { Signal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Properties of the dialog: Escape closes it, and so the signal. */
export function useDialog(shown: Signal<boolean>): {
  readonly ref: RefObject<HTMLDialogElement | null>;
  readonly onClose: () => void;
} {
  const ref = useRef<HTMLDialogElement>(null);
  // The event of a closing comes later: meanwhile somebody may have asked for it again.
  const isOurs = useRef(false);
  const open = shown.value;
  useEffect(() => {
    const { current } = ref;
    if (current === null || current.open === open) return;
    isOurs.current = !open;
    if (open) current.showModal();
    else current.close();
  }, [open]);
  const onClose = (): void => {
    if (!isOurs.current) shown.value = false;
    isOurs.current = false;
  };
  return { ref, onClose };
}
