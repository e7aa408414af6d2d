/** The refusals of tables that store each delivery once; part of the table in refusals.ts. */
export const deliveryRefusals = {
  delivery_id_missing: {
    status: 422,
    sqlstate: '22004',
    retryable: false,
    message: 'the request has no delivery id',
    hint: 'The table stores each delivery once (dedupe), but the request has no id where the table expects it.',
  },
  delivery_differs: {
    status: 409,
    sqlstate: '23505',
    retryable: false,
    message: 'another delivery with this id, and another body, is stored already',
    hint: 'The table stores each delivery once (dedupe). A request over HTTP is answered 202 instead, once it is in headgate.rejected_requests; headgate.retry_rejected stores it nevertheless. The option dedupe_compare says what a copy has in common with the first.',
  },
} as const;
