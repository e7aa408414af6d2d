/**
 * One door's TLS: its certificate, its key and, where clients must show certificates too, the authorities they are
 * checked against. Takes names of PEM files; gives what `tls` and `https` servers want, now and after every change of
 * the files. Refuses with GuardError at the start; afterwards a pair of files that does not work is told and not used,
 * and connections go on with the last one that did. Touches those files, by reading them.
 *
 * Files are compared every `tlsPollMs` and on `reload()`: mounted secrets are swapped by links, which no watcher of
 * files reports everywhere. A certificate and its key cannot be written at one moment, so between the two writes the
 * pair may be told as broken once.
 */
import { X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { SecureContextOptions, TLSSocket, TlsOptions } from 'node:tls';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../limits.ts';
import type { Observe } from '../observations.ts';
import { GuardError } from './guard-error.ts';

export interface TlsFiles {
  /** The door's certificate and those that lead to its authority, in that order (PEM). */
  readonly cert: string;
  readonly key: string;
  /** null: clients are not asked for certificates. */
  readonly clientCa: string | null;
  /** `optional`: a client may come without one, but not with one that those authorities do not vouch for. */
  readonly clientCert: 'required' | 'optional';
}

export interface TlsSourceOptions {
  /** The door's name in observations. */
  readonly door: string;
  readonly files: TlsFiles;
  readonly observe: Observe;
  readonly pollMs?: number;
}

/** A server that takes new certificates for the connections to come: `tls.Server` and `https.Server`. */
export interface SecureServer {
  setSecureContext(options: SecureContextOptions): void;
}

export class TlsSource implements Closable {
  readonly #options: TlsSourceOptions;
  readonly #servers = new Set<SecureServer>();
  #material: SecureContextOptions;
  /** The files as they were last looked into, whether they could be used or not. */
  #seen: string;
  #timer: NodeJS.Timeout | null = null;
  #reloading: Promise<void> = Promise.resolve();

  private constructor(options: TlsSourceOptions, material: SecureContextOptions, seen: string) {
    this.#options = options;
    this.#material = material;
    this.#seen = seen;
  }

  static async open(options: TlsSourceOptions): Promise<TlsSource> {
    const { door, files, observe, pollMs = limits.tlsPollMs } = options;
    const seen = await marks(files);
    const loaded = await load(files).catch((error: unknown) => {
      throw new GuardError(`TLS of the ${door} door: ${textOf(error)}`);
    });
    const source = new TlsSource(options, loaded.material, seen);
    observe({ kind: 'tls.loaded', door, subject: loaded.subject, expiresAtMs: loaded.expiresAtMs });
    source.#timer = setInterval(() => void source.#look(), pollMs).unref();
    return source;
  }

  /** For `tls.createServer` and `https.createServer`; hand the server to `serve` then. */
  get serverOptions(): TlsOptions {
    const { clientCa, clientCert } = this.#options.files;
    return {
      ...this.#material,
      requestCert: clientCa !== null,
      // What is optional is checked by `refuses`: Node would let a certificate of anybody's pass, or require one.
      rejectUnauthorized: clientCa !== null && clientCert === 'required',
    };
  }

  /** From now on the server's new connections get the certificate of the day. */
  serve(server: SecureServer): void {
    server.setSecureContext(this.#material);
    this.#servers.add(server);
  }

  /** A connection of a client that has shown a certificate which nobody trusted here has signed. */
  refuses(socket: TLSSocket): boolean {
    if (this.#options.files.clientCa === null || socket.authorized) return false;
    return socket.getPeerX509Certificate() !== undefined;
  }

  /** Reads the files again, changed or not. Never rejects: what does not work is told and not used. */
  reload(): Promise<void> {
    this.#reloading = this.#reloading.then(() => this.#load());
    return this.#reloading;
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#servers.clear();
    await this.#reloading;
  }

  async #look(): Promise<void> {
    if ((await marks(this.#options.files)) !== this.#seen) await this.reload();
  }

  async #load(): Promise<void> {
    const { door, files, observe } = this.#options;
    // Taken before the files are read: what changes meanwhile is read again.
    this.#seen = await marks(files);
    try {
      const { material, subject, expiresAtMs } = await load(files);
      for (const server of this.#servers) server.setSecureContext(material);
      this.#material = material;
      observe({ kind: 'tls.loaded', door, subject, expiresAtMs });
    } catch (error) {
      observe({ kind: 'tls.unusable', door, reason: textOf(error) });
    }
  }
}

interface Loaded {
  readonly material: SecureContextOptions;
  readonly subject: string;
  readonly expiresAtMs: number;
}

async function load(files: TlsFiles): Promise<Loaded> {
  const [cert, key] = await Promise.all([pem(files.cert), pem(files.key)]);
  const certificate = parsed(files.cert, () => new X509Certificate(cert));
  parsed(files.key, () => createSecureContext({ key }));
  const ca = files.clientCa === null ? null : await pem(files.clientCa);
  if (ca !== null) parsed(files.clientCa ?? '', () => void new X509Certificate(ca));
  const material: SecureContextOptions = {
    cert,
    key,
    minVersion: 'TLSv1.2',
    ...(ca === null ? {} : { ca }),
  };
  try {
    createSecureContext(material);
  } catch {
    throw new GuardError(`${files.key} is not the key of the certificate in ${files.cert}`);
  }
  return {
    material,
    subject: certificate.subject.replaceAll('\n', ', ').slice(0, 200),
    expiresAtMs: Date.parse(certificate.validTo),
  };
}

async function pem(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new GuardError(
      `${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`,
    );
  }
}

/** OpenSSL's own words quote nothing of the files, and help nobody either. */
function parsed<T>(path: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new GuardError(`${path} holds no usable PEM of what it should hold`);
  }
}

/** Changes whenever one of the files does; a file that is not there is a state like others. */
async function marks(files: TlsFiles): Promise<string> {
  const paths = [files.cert, files.key, ...(files.clientCa === null ? [] : [files.clientCa])];
  const each = paths.map((path) =>
    stat(path, { bigint: true }).then(
      ({ ino, size, mtimeNs, ctimeNs }) => `${ino}.${size}.${mtimeNs}.${ctimeNs}`,
      () => 'missing',
    ),
  );
  return (await Promise.all(each)).join('|');
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
