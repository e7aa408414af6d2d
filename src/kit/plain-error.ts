/**
 * An error whose message was written for the terminal: whole, without a stack, and without secrets. Every room that refuses to
 * start derives its own from this one, so that who reports it need not load the rooms to know them by.
 */
export class PlainError extends Error {
  override readonly name: string = 'PlainError';
}
