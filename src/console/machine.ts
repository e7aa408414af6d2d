/**
 * What the console's health page shows of the machine: the disk of the data directory, the spool on it, the certificates of
 * the doors. Takes Settings; returns what it finds when asked, and null for what cannot be read. Measures a flush at most
 * once a minute, and only while somebody views the page.
 */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { stateAt, validityOf } from '../access/tls-source.ts';
import type { SpoolDetail } from '../spool/spool-state.ts';
import type { CertificateInfo, Machine } from './api.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { diskSpace, flushTime } from '../host/disk-space.ts';
import { tlsFiles } from '../host/door-settings.ts';

export function createMachine(
  settings: Settings,
  embedded: boolean,
  spool: () => SpoolDetail | null,
): () => Promise<Machine> {
  const { dataDir: folder } = settings;
  const clock = (): number => performance.now();
  let flush: { readonly ms: Promise<number | null>; readonly atMs: number } | null = null;
  return async () => {
    if (flush === null || clock() - flush.atMs > limits.consoleFlushMs)
      flush = { ms: flushTime(folder, clock).catch(() => null), atMs: clock() };
    const space = await diskSpace(folder).catch(() => null);
    const flushMs = await flush.ms;
    return {
      node: process.versions.node,
      disk:
        space === null
          ? null
          : {
              ...space,
              folder,
              embedded,
              flushMs,
              low: space.freeBytes < limits.doctorFreeBytesMin,
              slow: flushMs !== null && flushMs > limits.doctorSlowFlushMs,
            },
      spool: spool(),
      certificates: (await Promise.all(doors.map((door) => certificateOf(settings, door)))).flat(),
    };
  };
}

const doors = ['listen', 'sql', 'gateway'] as const;

async function certificateOf(settings: Settings, door: (typeof doors)[number]): Promise<CertificateInfo[]> {
  const files = tlsFiles(settings, door);
  if (files === null) return [];
  try {
    const pem = await readFile(files.cert);
    const { subject, subjectAltName } = new X509Certificate(pem);
    const validity = validityOf(pem);
    const names = (subjectAltName ?? subject).replaceAll('\n', ', ').slice(0, limits.consoleNamesCharsMax);
    return [{ door, names, untilMs: validity.untilMs, state: stateAt(validity, Date.now()) }];
  } catch {
    return [{ door, names: '', untilMs: 0, state: 'unreadable' }];
  }
}
