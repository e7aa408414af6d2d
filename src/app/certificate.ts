/**
 * The webhook listener's certificate from an authority: connects where it is kept (the data directory, or the catalog that Headgates share), the
 * authority, the status display and the port for HTTP. Takes Settings and open rooms; returns its status. Loaded only if domains are set. Part
 * of the composition root.
 */
import { resolve } from 'node:path';
import { createExchange } from '../access/outgoing.ts';
import { Authority, issue } from '../acme/authority.ts';
import { openChallengeDoor } from '../acme/challenge-server.ts';
import {
  ensureTlsFile,
  storeInFolder,
  tlsFile,
  writeChallenges,
  writeTlsFile,
} from '../acme/folder-store.ts';
import { hostOf } from '../host/ports.ts';
import { CertificateRenewal } from '../acme/renewal.ts';
import type { RenewalOptions, CertificateStatus } from '../acme/renewal.ts';
import { storeInCatalog } from '../acme/catalog-store.ts';
import type { Store } from '../acme/certificate-state.ts';
import { asked } from '../ingest/learning.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import type { Engine } from '../engine/engine.ts';
import type { Closer } from '../kit/closer.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';

/** The same settings, with TLS files as for a door that has them. The file exists once this resolves. */
export async function withTlsFile(settings: Settings): Promise<Settings> {
  const dataDir = resolve(settings.dataDir);
  await ensureTlsFile(dataDir, Date.now());
  const file = tlsFile(dataDir);
  return { ...settings, listenTlsCert: file, listenTlsKey: file };
}

interface CertificateParts {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly pools: Pick<CommitPools, 'connect'>;
  readonly sealing: Sealing;
  /** Makes the listener read its certificate again. */
  readonly reload: () => Promise<void>;
  readonly observe: Observe;
}

export interface CertificateOfDomains {
  /** null: no authority issues one. */
  readonly standing: () => CertificateStatus | null;
  /** The port for HTTP, if the authority connects there. */
  readonly doors: { readonly challenge?: { readonly host: string; readonly port: number } };
  /** Makes the doors read their certificates again; if a certificate is being waited for, also asks for it again at once. */
  readonly reload: (() => Promise<void>) | null;
}

/** Closed by `closer`. The listener must already be open. */
export async function openCertificate(
  parts: CertificateParts,
  closer: Closer,
): Promise<CertificateOfDomains> {
  const { settings, observe, reload } = parts;
  const { listenAcmeDomains: domains } = settings;
  const host = hostOf(settings, 'listen');
  const dataDir = resolve(settings.dataDir);
  let keeper: CertificateRenewal | null = null;
  const door =
    settings.listenAcmeChallenge === 'http-01'
      ? await openChallengeDoor(
          { host, port: settings.listenAcmeHttpPort, fd: settings.sockets.challenge },
          domains,
          (token) => keeper?.answer(token) ?? null,
        )
      : null;
  if (door !== null) closer.add('port of the authority', () => door.close());
  const opened = new CertificateRenewal({
    domains,
    store: storeOf(parts, dataDir),
    make: makerOf(settings),
    show: async (certificate, challenges) => {
      await writeChallenges(dataDir, challenges);
      if (certificate !== null && (await writeTlsFile(dataDir, certificate))) await reload();
    },
    observe,
    now: Date.now,
    random: Math.random,
  });
  keeper = opened;
  closer.add('certificate', () => opened.close());
  return {
    standing: () => opened.standing,
    doors: door === null ? {} : { challenge: { host, port: door.port } },
    reload: async () => {
      opened.retry();
      await reload();
    },
  };
}

function storeOf({ settings, engine, pools, sealing }: CertificateParts, dataDir: string): Store {
  const of = `${settings.listenAcmeDirectory} ${settings.listenAcmeDomains.toSorted().join()}`;
  if (engine.kind === 'embedded') return storeInFolder(dataDir, of);
  return storeInCatalog(of, sealing, (sql, values) => asked(pools, engine.defaultDatabase, sql, values));
}

function makerOf(settings: Settings): RenewalOptions['make'] {
  const { listenAcmeDomains: domains, listenAcmeChallenge: challenge, listenAcmeEabId: id } = settings;
  const key = settings.listenAcmeEabKey;
  const exchange = createExchange({
    outgoingMs: limits.acmeAnswerMs,
    outgoingBytesMax: limits.acmeAnswerBytesMax,
  });
  return async (accountKey, publish, signal) => {
    const authority = await Authority.open(
      exchange,
      {
        directory: settings.listenAcmeDirectory,
        accountKey,
        contact: settings.listenAcmeContact,
        external: id === null || key === null ? null : { id, key },
      },
      signal,
    );
    return issue({ authority, domains, challenge, publish, now: Date.now });
  };
}
