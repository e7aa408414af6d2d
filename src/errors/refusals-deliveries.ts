/** The refusals of tables that store each delivery once, or only what is newer; part of the table in refusals.ts. */
export const deliveryRefusals = {
  delivery_id_missing: {
    status: 422,
    sqlstate: '22004',
    retryable: false,
    message: 'the request has no delivery id',
    hint: 'The table stores each delivery once (dedupe), but the request has no id where the table expects it.',
    isKept: true,
    restsOnCatalog: true,
  },
  delivery_differs: {
    status: 409,
    sqlstate: '23505',
    retryable: false,
    message: 'another delivery with this id, and another body, is stored already',
    hint: 'The table stores each delivery once (dedupe). Once a request over HTTP is in headgate.rejected_requests, it is answered 202 instead, or as the ANSWER of its table says; headgate.retry_rejected stores it nevertheless. The option dedupe_compare sets the parts that are compared.',
    isKept: true,
  },
  version_missing: {
    status: 422,
    sqlstate: '22004',
    retryable: false,
    message: 'the row does not say how new it is',
    hint: 'The table stores only rows that are newer (version). The value is missing, or cannot be compared with another one: NaN, Infinity, a time without its zone, a text of more than 1 KiB.',
    isKept: true,
    restsOnCatalog: true,
  },
} as const;
