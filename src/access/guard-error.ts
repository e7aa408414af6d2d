/** What the rooms of access/ throw at the start; its message is one line for the terminal. */
import { PlainError } from '../kit/plain-error.ts';

/** What stands in a door cannot be made as configured. */
export class GuardError extends PlainError {
  override readonly name = 'GuardError';
}
