/** Icons of the frame, drawn in the colour of their text. */
import type { JSX } from 'preact';

const paths = {
  overview: 'M2.5 2.5h4v5h-4zM9.5 2.5h4v3h-4zM2.5 10.5h4v3h-4zM9.5 8.5h4v5h-4z',
  requests: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  endpoints: 'M2.5 9l2-6h7l2 6v4.5h-11zM2.5 9h3.2l1 2h2.6l1-2h3.2',
  sql: 'M2.5 3h11v10h-11zM5 6l2 2-2 2M8.5 10.5h3',
  secrets: 'M5.3 8.2a2.6 2.6 0 1 0 2.5 2.5M7.2 8.8l6-6M11 5l1.8 1.8',
  events: 'M9 2L3.5 9H8l-1 5 5.5-7H8z',
  health: 'M1.5 8.5H5L7 3.5l2.5 9 1.7-4h3.3',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  copy: 'M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3',
  link: 'M6.5 9.5l3-3M7 5l1.5-1.5a2.5 2.5 0 0 1 4 4L11 9M9 11l-1.5 1.5a2.5 2.5 0 0 1-4-4L5 7',
  filter: 'M2.5 3.5h11l-4.2 5v4.5l-2.600-1.3v-3.2z',
  globe:
    'M2 8a6 6 0 1 0 12 0a6 6 0 1 0-12 0M2.3 6.3h11.4M2.3 9.7h11.4M8 2c-3.3 3.3-3.3 8.7 0 12c3.3-3.3 3.3-8.7 0-12',
  down: 'M4.5 6.5L8 10l3.5-3.5',
  search: 'M3 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0M10 10l3.5 3.5',
  go: 'M6 3.5L10.5 8 6 12.5',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
