/**
 * The passwords with which Headgate logs in for the owners of tables on a server that asks for one: made from the master key, so that every Headgate of
 * a database knows them, and nobody has to keep them. Pure, apart from the key ring.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import type { LoginPasswords } from '../engine/owner-logins.ts';
import type { KeyRing } from './key-ring.ts';

/** PostgreSQL's own (scram_iterations). */
const iterations = 4_096;

/** Throws while there is no master key. */
export function createLoginPasswords(ring: KeyRing): LoginPasswords {
  const madeOf = (what: string) => {
    const [first] = ring.keys();
    if (first === undefined) throw new Error('there is no master key');
    return createHmac('sha256', first.key).update(`headgate login\0${what}`).digest();
  };
  const password = (login: string) => madeOf(`password of ${login}`).toString('base64url');
  return {
    password,
    verifier: (login) => {
      const salt = madeOf(`salt of ${login}`).subarray(0, 16);
      const salted = pbkdf2Sync(password(login), salt, iterations, 32, 'sha256');
      const keyOf = (name: string) => createHmac('sha256', salted).update(name).digest();
      const stored = createHash('sha256').update(keyOf('Client Key')).digest();
      const parts = [stored, keyOf('Server Key')].map((it) => it.toString('base64'));
      return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${parts.join(':')}`;
    },
  };
}
