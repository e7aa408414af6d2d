/**
 * One door's TLS: its certificate, its key and, if clients must present certificates too, the authorities that these
 * are checked against. Takes the names of PEM files; returns what `tls` and `https` servers need, now and after every
 * change of the files. Refuses with GuardError at startup; later, a pair of files that does not work is reported and
 * not used, and connections continue with the last one that did. Only reads those files.
 *
 * A certificate that has expired, or is not valid yet, is still served if there is no better one, with a warning:
 * clients that check it turn away by themselves, and refusing to start would take down the other doors, too. But it
 * never replaces a valid one.
 *
 * Files are compared every `tlsPollMs` and on `reload()`: mounted secrets are swapped by symbolic links, which file
 * watchers do not report everywhere. A certificate and its key cannot be written at the same moment, so between the two
 * writes the pair may be reported as broken once.
 */
import { X509Certificate, constants } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { SecureContext, SecureContextOptions, TLSSocket, TlsOptions } from 'node:tls';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { PlainError } from '../kit/plain-error.ts';

export interface TlsFiles {
  /** The door's certificate and those that lead to its authority, in that order (PEM). */
  readonly cert: string;
  readonly key: string;
  /** null: clients are not asked for certificates. */
  readonly clientCa: string | null;
  /** `optional`: a client may connect without a certificate, but not with one that those authorities have not signed. */
  readonly clientCert: 'required' | 'optional';
}

export interface TlsSourceOptions {
  /** The door's name in observations. */
  readonly door: string;
  readonly files: TlsFiles;
  readonly observe: Observe;
  /** What an authority that validates this name is shown (RFC 8737); null: nothing. Absent: authorities do not validate here. */
  readonly challenge?: ((servername: string) => SecureContext | null) | undefined;
  readonly pollMs?: number;
  /** ms since 1970 */
  readonly now?: () => number;
}

/** From RFC 8737: an authority that validates a name offers this protocol and no other. */
const challengeProtocol = 'acme-tls/1';

/** A server that can be given a new certificate for future connections: `tls.Server` and `https.Server`. */
interface SecureServer {
  setSecureContext(options: SecureContextOptions): void;
}

export class TlsSource implements Closable {
  readonly #options: TlsSourceOptions;
  readonly #servers = new Set<SecureServer>();
  #loaded: LoadedCertificate;
  /** The state that was last warned of, and when. */
  #told: { state: ValidityState; atMs: number } = { state: 'valid', atMs: 0 };
  /** When a certificate that is not valid yet can be used, in ms since 1970; null: there is none. */
  #takeAtMs: number | null = null;
  /** The files as they were last seen, whether or not they could be used. */
  #seen: string;
  #timer: NodeJS.Timeout | null = null;
  #reloading: Promise<void> = Promise.resolve();

  private constructor(options: TlsSourceOptions, loaded: LoadedCertificate, seen: string) {
    this.#options = options;
    this.#loaded = loaded;
    this.#seen = seen;
  }

  static async open(options: TlsSourceOptions): Promise<TlsSource> {
    const { door, files, observe, pollMs = limits.tlsPollMs } = options;
    const seen = await marks(files);
    const loaded = await load(files);
    const source = new TlsSource(options, loaded, seen);
    observe({ kind: 'tls.loaded', door, subject: loaded.subject, expiresAtMs: loaded.untilMs });
    source.#warn();
    source.#timer = setInterval(() => void source.#look(), pollMs).unref();
    return source;
  }

  /** For `tls.createServer` and `https.createServer`; the server must then be passed to `serve`. */
  get serverOptions(): TlsOptions {
    const { clientCa, clientCert } = this.#options.files;
    return {
      ...this.#loaded.material,
      requestCert: clientCa !== null,
      // Optional certificates are checked by `refuses`: Node would either accept anybody's certificate or require one.
      rejectUnauthorized: clientCa !== null && clientCert === 'required',
    };
  }

  /** Which of these protocols a client and the door agree on, and what a validating authority is shown. */
  alpn(protocols: readonly string[]): TlsOptions {
    const { challenge } = this.#options;
    if (challenge === undefined) return { ALPNProtocols: [...protocols] };
    return {
      // Node calls it as a method of the connection, for `setKeyCert`.
      ALPNCallback(this: TLSSocket, offered: { servername: string | false; protocols: string[] }) {
        if (offered.protocols.join() !== challengeProtocol)
          return protocols.find((it) => offered.protocols.includes(it));
        // Node passes false for a client that names no server, which its types do not say.
        const shown = offered.servername === false ? null : challenge(offered.servername.toLowerCase());
        if (shown === null) return undefined;
        this.setKeyCert(shown);
        return challengeProtocol;
      },
    };
  }

  /** The connection of an authority that has been shown what it came for. */
  isChallenge({ alpnProtocol }: TLSSocket): boolean {
    return this.#options.challenge !== undefined && alpnProtocol === challengeProtocol;
  }

  /** From now on new connections of the server get the current certificate. */
  serve(server: SecureServer): void {
    server.setSecureContext(this.#loaded.material);
    this.#servers.add(server);
  }

  /** Whether the client has presented a certificate that none of the trusted authorities has signed. */
  refuses(socket: TLSSocket): boolean {
    if (this.#options.files.clientCa === null || socket.authorized) return false;
    return socket.getPeerX509Certificate() !== undefined;
  }

  /** Reads the files again, changed or not. Never rejects: files that do not work are reported and not used. */
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
    const changed = (await marks(this.#options.files)) !== this.#seen;
    if (changed || (this.#takeAtMs !== null && this.#nowMs >= this.#takeAtMs)) await this.reload();
    this.#warn();
  }

  get #nowMs(): number {
    return (this.#options.now ?? Date.now)();
  }

  /** Reports what is wrong with the certificate in use when that begins, and then every day. */
  #warn(): void {
    const { door, observe } = this.#options;
    const nowMs = this.#nowMs;
    const { subject, fromMs, untilMs } = this.#loaded;
    const state = stateAt(this.#loaded, nowMs);
    const known = state === this.#told.state && nowMs - this.#told.atMs < limits.tlsExpiryToldMs;
    if (state === 'valid' || known) return;
    this.#told = { state, atMs: nowMs };
    const [validFrom, validUntil] = [dateOf(fromMs), dateOf(untilMs)];
    observe({ kind: 'tls.doubtful', door, subject, state, validFrom, validUntil });
  }

  async #load(): Promise<void> {
    const { door, files, observe } = this.#options;
    // Taken before the files are read: a change made meanwhile leads to another read.
    this.#seen = await marks(files);
    try {
      this.#takeAtMs = null;
      const loaded = await load(files);
      this.#refuseWorse(loaded);
      for (const server of this.#servers) server.setSecureContext(loaded.material);
      this.#loaded = loaded;
      this.#told = { state: 'valid', atMs: 0 };
      observe({ kind: 'tls.loaded', door, subject: loaded.subject, expiresAtMs: loaded.untilMs });
      this.#warn();
    } catch (error) {
      observe({ kind: 'tls.unusable', door, reason: textOf(error) });
    }
  }

  /** Throws if the certificate in use is valid and the candidate is not. */
  #refuseWorse(candidate: LoadedCertificate): void {
    const nowMs = this.#nowMs;
    const state = stateAt(candidate, nowMs);
    if (isValid(state) || !isValid(stateAt(this.#loaded, nowMs))) return;
    const [when, ms] =
      state === 'expired'
        ? (['expired on', candidate.untilMs] as const)
        : (['is not valid before', candidate.fromMs] as const);
    if (state === 'not yet valid') this.#takeAtMs = candidate.fromMs;
    throw new GuardError(
      `the certificate in ${this.#options.files.cert} ${when} ${dateOf(ms)}: the one in use is kept and valid until ${dateOf(this.#loaded.untilMs)}`,
    );
  }
}

interface LoadedCertificate extends Validity {
  readonly material: SecureContextOptions;
  readonly subject: string;
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** Throws GuardError, with the path of the file first. */
export async function load(files: TlsFiles): Promise<LoadedCertificate> {
  const [cert, key] = [await pem(files.cert), await pem(files.key)];
  const certificate = parsed(files.cert, () => new X509Certificate(cert));
  parsed(files.key, () => createSecureContext({ key }));
  const ca = files.clientCa === null ? null : await pem(files.clientCa);
  if (ca !== null) parsed(files.clientCa ?? '', () => void new X509Certificate(ca));
  const material: SecureContextOptions = {
    cert,
    key,
    minVersion: 'TLSv1.2',
    // A TLS 1.2 client could otherwise renegotiate as often as it likes on one connection, each time at the server's cost.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ...(ca === null ? {} : { ca }),
  };
  try {
    createSecureContext(material);
  } catch {
    throw new GuardError(`${files.key} is not the key of the certificate in ${files.cert}`);
  }
  return {
    material,
    subject: namesOf(certificate).replaceAll('\n', ', ').slice(0, 200),
    ...parsed(files.cert, () => validityOf(cert)),
  };
}

/** Many authorities leave the subject empty, which Node's types do not say. */
function namesOf({ subject, subjectAltName }: X509Certificate): string {
  return (subject as string | undefined) ?? subjectAltName ?? '';
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

/** OpenSSL's own messages do not quote the files, and do not help anybody either. */
function parsed<T>(path: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new GuardError(`${path} contains no usable PEM of the expected kind`);
  }
}

/** Changes whenever one of the files does; a missing file is a state like any other. */
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

/** A guard of a door cannot be created as configured. */
export class GuardError extends PlainError {
  override readonly name = 'GuardError';
}

/** The time during which all certificates of a file are valid, in ms since 1970. */
interface Validity {
  readonly fromMs: number;
  readonly untilMs: number;
}

type ValidityState = 'valid' | 'expires soon' | 'expired' | 'not yet valid';

export function validityOf(pem: Buffer): Validity {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
  const all = (blocks ?? [pem]).map((block) => new X509Certificate(block));
  return {
    fromMs: Math.max(...all.map(({ validFrom }) => Date.parse(validFrom))),
    untilMs: Math.min(...all.map(({ validTo }) => Date.parse(validTo))),
  };
}

/** Soon: within `tlsExpirySoonMs`, or in the last third of a shorter lifetime. */
export function stateAt({ fromMs, untilMs }: Validity, nowMs: number): ValidityState {
  if (nowMs >= untilMs) return 'expired';
  if (nowMs < fromMs) return 'not yet valid';
  const soonMs = Math.min(limits.tlsExpirySoonMs, (untilMs - fromMs) / 3);
  return untilMs - nowMs < soonMs ? 'expires soon' : 'valid';
}

/** Whether clients that check the certificate accept it. */
function isValid(state: ValidityState): boolean {
  return state === 'valid' || state === 'expires soon';
}
