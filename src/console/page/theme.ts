/** Light, dark, or as the system is set. */
import { effect, signal } from '@preact/signals';

export const theme = signal(localStorage.getItem('headgate-theme') ?? 'auto');

export function watchTheme(): void {
  effect(() => {
    localStorage.setItem('headgate-theme', theme.value);
    if (theme.value === 'auto') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme.value;
  });
}
