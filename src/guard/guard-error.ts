/** What stands in a door cannot be made as configured; the message is one line for the terminal. */
export class GuardError extends Error {
  override readonly name = 'GuardError';
}
