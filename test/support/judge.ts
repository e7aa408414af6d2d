/**
 * What a judge of a request is: a vendor's package for Node that is no development dependency, asked whether the request is right: true, or
 * false or a throw. Takes nothing of ours but the request.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { PackageName } from '../../src/senders/packages.ts';

export interface Judged {
  readonly body: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly secret: string;
}

export interface Judge {
  readonly package: PackageName;
  readonly senders: readonly string[];
  /** The package does not look at the body: what is signed there is left to the caller. */
  readonly whole?: false;
  /** `load`: the package, or a part of it by its path. */
  readonly judge: (load: Load, request: Judged) => Promise<boolean>;
}

// The packages' own types are not here, and what they say is compared with true.
// oxlint-disable-next-line typescript/no-explicit-any
export type Loaded = any;
export type Load = (path?: string) => Promise<Loaded>;

export function loaderOf(folder: string, name: PackageName): Load {
  const require = createRequire(join(folder, 'x.js'));
  return (path) => {
    // `./…` is a file that the package does not offer by its `exports`.
    const wanted = path?.startsWith('./')
      ? join(folder, 'node_modules', name, path)
      : path === undefined
        ? name
        : `${name}/${path}`;
    return import(pathToFileURL(require.resolve(wanted)).href).then(
      (loaded: Loaded) => loaded.default ?? loaded,
      // Some offer only a form for require, some only one for import.
      () => require(wanted) as Loaded,
    );
  };
}

/** By names in lower case. */
export const lower = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
/** The call throws if the request is not right. */
export const unlessThrown = async (call: () => unknown): Promise<boolean> => {
  await call();
  return true;
};
