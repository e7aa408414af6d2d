/** Time, in the time zone UTC. */
import { EvaluationError } from './errors.ts';
import { Decimal } from './numeric.ts';
import { type FunctionRow, functionsOf, operatorsOf } from './function-table.ts';
import { addInterval, subtractTimestamps, toTimestamp } from './timestamp.ts';

const fn = functionsOf('time');
const op = operatorsOf('time');

function epoch(field: string, micros: bigint): Decimal {
  if (field.toLowerCase() !== 'epoch')
    throw new EvaluationError('0A000', 'extract: epoch is known here', false);
  return new Decimal(micros, 6);
}

const secondsDoc = 'Seconds since 1970, or the seconds of an interval: extract(epoch from now()).';

export const timeRows: readonly FunctionRow[] = [
  fn('now', [], 'timestamptz', () => null, 'The time of arrival of the request; also current_timestamp.', {
    clock: true,
  }),
  fn('extract', ['text', 'timestamptz'], 'numeric', epoch, secondsDoc, { stable: true }),
  fn('extract', ['text', 'interval'], 'numeric', epoch, secondsDoc),
  fn('to_timestamp', ['float8'], 'timestamptz', toTimestamp, 'The time that many seconds after 1970.'),
  op('-', ['timestamptz', 'timestamptz'], 'interval', subtractTimestamps, 'The time between.'),
  op('+', ['timestamptz', 'interval'], 'timestamptz', addInterval, 'Later.', { stable: true }),
  op('-', ['timestamptz', 'interval'], 'timestamptz', (time, step) => addInterval(time, -step), 'Earlier.', {
    stable: true,
  }),
];
