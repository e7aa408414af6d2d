/**
 * Why there is no connection to a database that a client has named. Takes the error of the connection attempt, returns the
 * refusal: a condition that lasts until somebody changes the database or its privileges is not reported as temporary. Pure.
 */
import { Refused } from '../errors/refusals.ts';
import { sqlstateOf } from './sqlstate.ts';

export function notConnected(error: unknown): Refused {
  switch (sqlstateOf(error)) {
    case '3D000':
      return new Refused('database_unknown');
    // ALTER DATABASE … ALLOW_CONNECTIONS false, as for template0; a role without CONNECT.
    case '55000':
    case '42501':
      return new Refused('database_closed');
    default:
      // The engine's message names roles and hosts; the log of the engine's watch has it.
      return new Refused('engine_unavailable');
  }
}
