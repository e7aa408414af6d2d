/** Why a check was not true, for programs. Types only; the console's page reads it, too. */

/** What was decisive for a refusal, for programs: no value of a header or of a secret, only names, and ages in s. */
export interface Cause {
  readonly kind:
    | 'clock'
    | 'ahead'
    | 'missing'
    | 'empty'
    | 'twice'
    | 'prefix'
    | 'signature'
    | 'key'
    | 'token'
    | 'url'
    | 'error'
    | 'other';
  /** The header that it is about. */
  readonly header?: string;
  /** For `clock` (too old, or the age is not known) and `ahead`: the difference from the time of arrival, negative if it is ahead, and how much the check allows. */
  readonly ageS?: number;
  readonly limitS?: number;
  /** Whether the signature was found to be right before, or was not needed any more; absent: neither. */
  readonly signature?: 'right' | 'not looked at';
}
