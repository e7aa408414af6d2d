import assert from 'node:assert/strict';

/** The effects, by state, then by event. A missing state or event is a type error. */
export type StateTable<State extends string, Event extends string> = Record<State, Record<Event, string>>;

/** Puts a new machine into every state, applies every event to it, and compares all results with the table at once. */
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
