/**
 * Conditions that were told and are not over, kept across a restart in `alerts.json` of the data directory, so that their end is told too
 * and nothing is told twice. Takes and returns conditions by rule and labels. A file that cannot be written, cannot be read or holds
 * anything else counts as missing: conditions are then told again.
 */
import { open, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '../config/limits.ts';
import type { Labels } from './rules.ts';

export interface SavedCondition {
  readonly rule: string;
  readonly labels: Labels;
  readonly sinceMs: number;
  readonly says: string;
}

export interface AlertStateFile {
  readonly read: () => Promise<readonly SavedCondition[]>;
  readonly write: (kept: readonly SavedCondition[]) => Promise<void>;
}

export function keptIn(dataDir: string): AlertStateFile {
  const path = join(dataDir, 'alerts.json');
  return {
    read: () => readKept(path).catch(() => []),
    write: async (kept) => {
      const next = `${path}.new`;
      try {
        await writeFile(next, JSON.stringify(kept), { mode: 0o600 });
        await rename(next, path);
      } catch {
        // A full disk has an alert of its own.
      }
    },
  };
}

async function readKept(path: string): Promise<readonly SavedCondition[]> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    if (size > limits.alertFileBytesMax) return [];
    const found: unknown = JSON.parse(await file.readFile('utf8'));
    return Array.isArray(found) ? found.slice(0, limits.alertConditionsMax).filter(isKept) : [];
  } finally {
    await file.close();
  }
}

export function isKept(it: unknown): it is SavedCondition {
  const { rule, labels, sinceMs, says } = (it ?? {}) as Record<string, unknown>;
  return (
    typeof rule === 'string' &&
    typeof says === 'string' &&
    typeof sinceMs === 'number' &&
    Number.isSafeInteger(sinceMs) &&
    typeof labels === 'object' &&
    labels !== null &&
    Object.values(labels).every((label) => typeof label === 'string')
  );
}
