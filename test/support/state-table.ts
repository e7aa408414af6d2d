import assert from 'node:assert/strict';

/** What happens: by state, then by event. A state or an event that is left out is an error of types. */
export type StateTable<State extends string, Event extends string> = Record<State, Record<Event, string>>;

/**
 * Brings a machine into every state and lets every event happen to it, each time to a new one, and compares what is said of that
 * with the table, all of it at once.
 */
export async function holdsTable<State extends string, Event extends string, Machine>(
  table: StateTable<State, Event>,
  states: Record<State, () => Machine | Promise<Machine>>,
  events: Record<Event, (machine: Machine) => string | Promise<string>>,
): Promise<void> {
  const seen: Record<string, Record<string, string>> = {};
  for (const [state, begin] of Object.entries<() => Machine | Promise<Machine>>(states)) {
    const row: Record<string, string> = (seen[state] = {});
    for (const [event, happens] of Object.entries<(machine: Machine) => string | Promise<string>>(events))
      row[event] = await happens(await begin());
  }
  assert.deepEqual(seen, table);
}
