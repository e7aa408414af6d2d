/**
 * An error whose message was written for the terminal: complete, without a stack and without secrets. Every room that refuses to
 * start derives its own error from this one, so that the code that reports them need not load those rooms.
 */
export class PlainError extends Error {
  override readonly name: string = 'PlainError';
}
