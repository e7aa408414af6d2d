/** Certificates as users make them: with openssl, from an authority of their own, in a folder of the test. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TlsSource } from '../../src/access/tls-source.ts';
import type { TlsSourceOptions } from '../../src/access/tls-source.ts';
import { findTool } from './tools.ts';

export interface Pair {
  readonly cert: string;
  readonly key: string;
}

export interface Authority extends Pair {
  /** A certificate for `name` signed by this authority, in files `<file>.pem` and `<file>.key`. */
  issue(file: string, name: string, options?: { readonly names?: string; readonly chain?: boolean }): Pair;
}

function openssl(args: readonly string[]): void {
  const ran = spawnSync('openssl', args, { encoding: 'utf8' });
  if (ran.status !== 0) throw new Error(`openssl ${args.join(' ')}: ${ran.stderr}`);
}

const elliptic = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** `names`: subject alternative names in openssl's syntax; by default the names of this machine in tests. */
export function makeAuthority(folder: string, file = 'ca'): Authority {
  const path = (name: string) => join(folder, name);
  const own = { cert: path(`${file}.pem`), key: path(`${file}.key`) };
  const subject = `/CN=${file} of a test`;
  openssl([
    'req',
    '-x509',
    ...elliptic,
    '-days',
    '2',
    '-subj',
    subject,
    '-keyout',
    own.key,
    '-out',
    own.cert,
  ]);
  return {
    ...own,
    issue(name, commonName, { names = 'DNS:localhost,IP:127.0.0.1,IP:::1', chain = false } = {}) {
      const made = { cert: path(`${name}.pem`), key: path(`${name}.key`) };
      const request = path(`${name}.csr`);
      openssl(['req', ...elliptic, '-subj', `/CN=${commonName}`, '-keyout', made.key, '-out', request]);
      const extensions = path(`${name}.ext`);
      writeFileSync(extensions, `subjectAltName=${names}\n`);
      const sign = ['x509', '-req', '-days', '2', '-in', request, '-CA', own.cert, '-CAkey', own.key];
      openssl([...sign, '-CAcreateserial', '-extfile', extensions, '-out', made.cert]);
      if (chain) writeFileSync(made.cert, readFileSync(made.cert, 'utf8') + readFileSync(own.cert, 'utf8'));
      return made;
    },
  };
}

/** Replaces the pair's certificate by one with the same key and these dates of validity: `YYYYMMDDHHMMSSZ`. */
export function replaceDated(folder: string, { cert, key }: Pair, from: string, until: string): void {
  const path = (name: string) => join(folder, `dated.${name}`);
  // Only `openssl ca` accepts both dates, and it requires a folder of its own.
  const config = `[ca]\ndefault_ca = own\n[own]\ndatabase = ${path('index')}\nserial = ${path('serial')}
new_certs_dir = ${folder}\ndefault_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n`;
  writeFileSync(path('conf'), config);
  writeFileSync(path('index'), '');
  writeFileSync(path('serial'), '01\n');
  openssl(['req', '-new', '-key', key, '-subj', '/CN=dated', '-out', path('csr')]);
  const names = ['-config', path('conf'), '-in', path('csr'), '-out', path('pem'), '-keyfile', key];
  openssl(['ca', '-batch', '-selfsign', '-notext', ...names, '-startdate', from, '-enddate', until]);
  renameSync(path('pem'), cert);
}

/** TLS with its own certificate, for doors opened inside the test process; null: openssl is not installed. */
export async function testTls(
  options: Partial<TlsSourceOptions> = {},
): Promise<{ source: TlsSource; ca: string; close(): Promise<void> } | null> {
  if (findTool('openssl') === null && process.env['CI'] !== 'true') {
    process.stderr.write('\n*** SKIPPED over TLS, because openssl is not installed\n');
    return null;
  }
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
  const authority = makeAuthority(folder);
  const files = { ...authority.issue('server', 'server'), clientCa: null, clientCert: 'required' } as const;
  const source = await TlsSource.open({ door: 'test', files, observe: () => undefined, ...options });
  return {
    source,
    ca: readFileSync(authority.cert, 'utf8'),
    close: async () => {
      await source.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
