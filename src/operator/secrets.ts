/**
 * The Secrets that a Headgate needs: those that its spec names must exist with their keys; the others are generated,
 * once. A generated master key is never generated again: with another key every sealed secret is lost, so a missing
 * Secret is reported (MissingSecret) instead of replaced. Contents never leave this file except as a keyed digest.
 */
import { createHmac } from 'node:crypto';
import { managedLabels, secrets, selectorOf } from './kinds.ts';
import type { ClusterObject } from './kinds.ts';
import type { Objects } from './objects.ts';
import type { CompleteSpec, HeadgateResource, SecretRef } from './resource.ts';

/** The user must act; the message says how. */
export class MissingSecret extends Error {
  override readonly name = 'MissingSecret';
  readonly reason: 'SecretMissing' | 'MasterKeyMissing';

  constructor(reason: MissingSecret['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

interface PreparedSecrets {
  /** The Secret with a generated master key, or empty if the spec names one. */
  readonly generatedMasterKeySecret: string;
  /** Changes when the connection string does; null without one. */
  readonly databaseUrlChecksum: string | null;
}

export async function prepareSecrets(
  { metadata, status }: HeadgateResource,
  spec: CompleteSpec,
  objects: Objects,
  randomBytes: (count: number) => Buffer,
): Promise<PreparedSecrets> {
  const masterKey = { name: `${metadata.name}-master-key`, key: 'master-key' };
  const known = status?.generatedMasterKeySecret ?? '';
  let sealing: string;
  if (spec.masterKeySecret !== null) {
    sealing = await textOf(spec.masterKeySecret, 'spec.masterKeySecret', objects);
  } else if (known === masterKey.name) {
    sealing = await textOf(masterKey, 'the generated master key', objects, 'MasterKeyMissing');
  } else {
    // Without an owner reference: it outlives its Headgate, as do the volume and the database with what it sealed.
    await generate(masterKey, metadata, spec, objects, randomBytes, null);
    sealing = await textOf(masterKey, 'the generated master key', objects);
  }
  if (spec.sql.passwordSecret !== null)
    await textOf(spec.sql.passwordSecret, 'spec.sql.passwordSecret', objects);
  if (spec.gateway.enabled) {
    const token = { name: `${metadata.name}-gateway`, key: 'token' };
    if (spec.gateway.tokenSecret === null)
      await generate(token, metadata, spec, objects, randomBytes, 'owned');
    else await textOf(spec.gateway.tokenSecret, 'spec.gateway.tokenSecret', objects);
  }
  return {
    generatedMasterKeySecret: spec.masterKeySecret === null ? masterKey.name : known,
    databaseUrlChecksum:
      spec.databaseUrlSecret === null
        ? null
        : // Keyed, because more people may read the Deployment than the Secret.
          createHmac('sha256', sealing)
            .update(await textOf(spec.databaseUrlSecret, 'spec.databaseUrlSecret', objects))
            .digest('hex'),
  };
}

async function textOf(
  { name, key }: SecretRef,
  what: string,
  objects: Objects,
  reason: MissingSecret['reason'] = 'SecretMissing',
): Promise<string> {
  const secret = (await objects.read(secrets, name)) as (ClusterObject & Data) | null;
  const help =
    reason === 'MasterKeyMissing' ? '; put it back from its copy, or make one to begin with a new key' : '';
  if (secret === null) throw new MissingSecret(reason, `${what}: there is no Secret ${name}${help}`);
  const encoded = secret.data?.[key];
  if (encoded === undefined)
    throw new MissingSecret(reason, `${what}: the Secret ${name} has no key ${key}${help}`);
  return Buffer.from(encoded, 'base64').toString('utf8');
}

interface Data {
  readonly data?: Readonly<Record<string, string>>;
}

/** An existing Secret is kept: if two operators generate one at once, both use the first. */
async function generate(
  { name, key }: SecretRef,
  { name: headgate, namespace }: HeadgateResource['metadata'],
  { commonLabels, commonAnnotations }: CompleteSpec,
  objects: Objects,
  randomBytes: (count: number) => Buffer,
  owned: 'owned' | null,
): Promise<void> {
  if ((await objects.read(secrets, name)) !== null) return;
  const metadata = {
    name,
    namespace,
    labels: { ...selectorOf(headgate), ...managedLabels, ...commonLabels },
    ...(Object.keys(commonAnnotations).length > 0 && { annotations: commonAnnotations }),
    ...(owned !== null && { ownerReferences: [objects.ownerReference()] }),
  };
  await objects.create(secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    type: 'Opaque',
    stringData: { [key]: randomBytes(32).toString('base64') },
  });
}
