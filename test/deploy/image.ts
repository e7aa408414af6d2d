/** The image that buildah has made of the Dockerfile. `npm run test:image` builds it, and says here where it is. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { temporaryFolder } from '../support/headgate.ts';
import { serves } from '../support/image-serves.ts';
import { builtImage } from '../support/image.ts';
import type { ImageConfig } from '../support/image.ts';

interface Built {
  /** Where its file system is. */
  readonly root: string;
  readonly config: ImageConfig;
  /** Of the packages, CycloneDX. */
  readonly bills: readonly string[];
}

const { root, config, bills } = JSON.parse(
  readFileSync(process.env['HEADGATE_IMAGE'] ?? '', 'utf8'),
) as Built;

suite('the container image serves unprivileged', () => {
  test('the container image serves as uid 10001 on a read-only root, and stops in time', async (t) => {
    assert.deepEqual([config.StopSignal, config.User], ['SIGTERM', '10001:10001']);
    const image = builtImage(root, config);
    await serves(t, image, join(await temporaryFolder(t), 'volume'));
  });

  test('the container image contains no npm package that its bill of materials does not list', (t) => {
    const listed = bills.map((path) => {
      const { components } = JSON.parse(readFileSync(path, 'utf8')) as {
        components: readonly { group?: string; name: string; version: string; purl: string }[];
      };
      assert(components.every(({ purl }) => purl.startsWith('pkg:npm/')));
      return new Set(components.map(({ purl }) => decodeURIComponent(purl).replace('pkg:npm/', '')));
    });
    for (const [i, folder] of ['opt/headgate/node_modules', 'opt/node_modules'].entries()) {
      const lock = readFileSync(join(root, folder, '.package-lock.json'), 'utf8');
      const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> };
      const there = Object.entries(packages).map(
        ([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`,
      );
      assert(there.length > 30);
      assert.deepEqual(
        there.filter((it) => listed[i]?.has(it) !== true),
        [],
        folder,
      );
      t.diagnostic(
        `${folder}: ${there.length} packages, of ${listed[i]?.size} in the bill (those of other platforms among them)`,
      );
    }
  });
});
