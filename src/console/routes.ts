/** The pages of the console, by the first part of their address: what `page/main.tsx` shows, and what the tests open one by one. Pure. */
export const routes = [
  '',
  'requests',
  'endpoints',
  'endpoint',
  'new',
  'sql',
  'secrets',
  'events',
  'health',
  'diff',
  // As they were called before.
  'refused',
  'request',
] as const;

export type ConsoleRoute = (typeof routes)[number];

export const isRoute = (place: string): place is ConsoleRoute =>
  (routes as readonly string[]).includes(place);
