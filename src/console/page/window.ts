/** Whether the page is as narrow as a phone, where some of it is arranged in another way than style alone can. */
import { signal } from '@preact/signals';

const narrow = matchMedia('(max-width: 720px)');

export const isPhone = signal(narrow.matches);

narrow.addEventListener('change', ({ matches }) => (isPhone.value = matches));
