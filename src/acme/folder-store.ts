/**
 * The folder `acme` of the data directory, 0700: `tls.pem`, the certificate and its key as the door reads them (access/tls-source.ts);
 * `challenges.json`, what an authority may currently ask for, which listener processes read too; and `state.json`, if no other Headgate
 * shares the certificate. Takes and returns texts; throws the file system's errors. Each file is 0600, and written as a whole or not at all.
 */
import { readFileSync } from 'node:fs';
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import type { SecureContext } from 'node:tls';
import { challengeCertificate, placeholder } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import { parseState } from './certificate-state.ts';
import type { Challenge, CertificateState, Store } from './certificate-state.ts';

const folderOf = (dataDir: string) => join(dataDir, 'acme');
const challengesFile = (dataDir: string) => join(folderOf(dataDir), 'challenges.json');

/** Certificate and key of the door. */
export const tlsFile = (dataDir: string) => join(folderOf(dataDir), 'tls.pem');

/** Lets the door be opened before there is a certificate. */
export async function ensureTlsFile(dataDir: string, nowMs: number): Promise<void> {
  await mkdir(folderOf(dataDir), { recursive: true, mode: 0o700 });
  if ((await readIfThere(tlsFile(dataDir))) === null) await writeTlsFile(dataDir, placeholder(nowMs));
}

/** Whether it differed from the previous one. */
export async function writeTlsFile(dataDir: string, { chain, key }: Certificate): Promise<boolean> {
  return replace(tlsFile(dataDir), `${key}${chain}`);
}

export async function writeChallenges(dataDir: string, challenges: readonly Challenge[]): Promise<void> {
  await replace(challengesFile(dataDir), JSON.stringify(challenges));
}

/** What an authority that validates a domain over TLS is shown; null: nobody is expected to ask for that domain. */
export function challengeShower(dataDir: string): (domain: string) => SecureContext | null {
  const path = challengesFile(dataDir);
  return (domain) => {
    try {
      // Synchronous: the handshake waits. Only an authority, or a client that behaves like one, gets this far.
      const challenges = JSON.parse(readFileSync(path, 'utf8')) as readonly Challenge[];
      const asked = challenges.find((it) => it.domain === domain);
      if (asked === undefined) return null;
      const { chain, key } = challengeCertificate(domain, asked.authorization, Date.now());
      return createSecureContext({ cert: chain, key, minVersion: 'TLSv1.2' });
    } catch {
      return null;
    }
  };
}

/** For a certificate that this Headgate does not share. `of`: what the certificate is for, and from whom. */
export function storeInFolder(dataDir: string, of: string): Store {
  const path = join(folderOf(dataDir), 'state.json');
  const read = async (): Promise<CertificateState> => {
    const kept = await readIfThere(path);
    const [first = '', state = ''] = kept?.split('\n') ?? [];
    return parseState(first === of ? state : '');
  };
  return {
    isShared: false,
    read,
    begin: read,
    keep: async (state) => {
      await replace(path, `${of}\n${JSON.stringify(state)}`);
      return true;
    },
  };
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

async function replace(path: string, text: string): Promise<boolean> {
  if ((await readIfThere(path)) === text) return false;
  const next = `${path}.new`;
  const file = await open(next, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  return true;
}
