/** A picture of the catalog of database `postgres`, whose sealed values are texts in base64 and whose checks let everything pass. */
import { Picture } from '../../src/catalog/picture.ts';
import { destinationOf } from '../../src/risingwave/destination.ts';
import type { Limits } from '../../src/config/limits.ts';
import { createCompileAnswers } from '../../src/validate/answers.ts';

/** `clock`: in ms. */
export function pictureOf(
  limits: Pick<Limits, 'catalogWholeMax' | 'catalogWholeMs'>,
  clock = () => 0,
): Picture {
  const deps = {
    open: (sealed: string) => Buffer.from(sealed, 'base64').toString(),
    compileAnswers: createCompileAnswers(null),
    compile: () => ({ check: () => true, headers: [] }),
    destination: (value: string, trusted: boolean) => destinationOf(value, ['rw:4566'], trusted),
  };
  return new Picture({ database: 'postgres', deps, limits, clock });
}
