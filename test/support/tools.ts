/**
 * Programs that tests use: psql, curl, pgbench … A test that needs one that is not installed is skipped, with a
 * message; with CI=true it fails, so that a green run there means that everything ran.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';

/** The path of the program, or null. Debian installs some of PostgreSQL's programs next to the server. */
export function findTool(name: string): string | null {
  if (name.includes('/')) return name;
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  folders.push('/usr/sbin');
  for (const version of [18, 17, 16, 15, 14]) folders.push(`/usr/lib/postgresql/${version}/bin`);
  for (const folder of folders) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here: try the next folder.
    }
  }
  return null;
}

/** The path of the program, or null after `t` was skipped: `if ((psql = requireTool(t, 'psql')) === null) return;` */
export function requireTool(t: TestContext, name: string): string | null {
  const path = findTool(name);
  if (path === null) skipFor(t, name);
  return path;
}

/** As `requireTool`: Chromium. Its headless shell, if installed, takes less than half of the processor time that Chromium takes to show a page. */
export function requireBrowser(t: TestContext): string | null {
  return findTool('chromium-headless-shell') ?? requireTool(t, 'chromium');
}

/** Skips `t`, with a message, because something is not installed; with CI=true it throws. */
export function skipFor(t: TestContext, name: string): void {
  if (process.env['CI'] === 'true') throw new Error(`${name} is not installed, and CI=true skips nothing`);
  t.diagnostic(`SKIPPED: ${name} is not installed`);
  process.stderr.write(`\n*** ${t.name}: SKIPPED, because ${name} is not installed\n`);
  t.skip(`${name} is not installed`);
}
