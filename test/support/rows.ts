/** Hand-made targets and Rows, for tests of the stages between the catalog and the engine. */
import type { Rows } from '../../src/types/rows.ts';
import type { Shape } from '../../src/types/shape.ts';
import type { Target } from '../../src/types/target.ts';
import { limits } from '../../src/config/limits.ts';

const jsonb = (name: string) => ({ name, type: 'jsonb', baseType: 3802, fallback: null });

/** The parts of a request besides its headers and its body. */
export const plainHead = {
  method: 'POST',
  target: '/webhook/dev/public/t',
  arrivedAtMs: 0,
  remoteAddress: '192.0.2.1',
} as const;

/** A table of one JSONB column, unless a test gives something else. */
export function targetOf(given: Partial<Omit<Target, 'shape'>> & { shape?: Partial<Shape> } = {}): Target {
  const column = given.shape?.columns?.[0]?.name ?? 'data';
  return {
    database: 'dev',
    schema: 'public',
    table: 't',
    oid: 1,
    check: null,
    waitsForDisk: true,
    hasLocks: false,
    code: {
      owner: 10,
      ownerName: 'root',
      as: 'writer',
      deletesAs: 'headgate',
      inert: true,
      schemaTrusted: true,
      writer: 'root',
      functionsIn: null,
    },
    intake: {
      format: 'json',
      batched: false,
      document: column,
      unknown: 'ignore',
      includes: [],
      hiddenHeaders: new Set(),
    },
    ...given,
    shape: {
      version: '',
      writeMode: 'documents',
      columns: [jsonb('data')],
      key: [],
      document: null,
      onTypeError: 'reject',
      ...given.shape,
    },
  };
}

/** The rows of one request: one document each. */
export function rowsOf(target: Target, ...documents: readonly (string | Buffer)[]): Rows {
  const buffers = documents.map((document) => Buffer.from(document));
  const spans = new Uint32Array(buffers.length * 2);
  let at = 0;
  buffers.forEach((buffer, i) => {
    spans[2 * i] = at;
    at += buffer.length;
    spans[2 * i + 1] = at;
  });
  return {
    target,
    documents: { bytes: Buffer.concat(buffers), spans },
    count: buffers.length,
    bytes: at,
    deletes: null,
    keeps: null,
    lines: null,
    ackTimeoutMs: limits.ackDeadlineMs,
    chain: null,
    ignored: null,
  };
}
