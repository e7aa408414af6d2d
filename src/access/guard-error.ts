/** What the files of access/ throw at startup; its message is one line for the terminal. */
import { PlainError } from '../kit/plain-error.ts';

/** A guard of a door cannot be created as configured. */
export class GuardError extends PlainError {
  override readonly name = 'GuardError';
}
