/** The refusals of the console; part of `refusals` (refusals.ts). */
export const consoleRefusals = {
  misdirected: {
    status: 421,
    sqlstate: '42501',
    retryable: false,
    message: 'the console does not answer to this host name',
    hint: 'Call it as localhost or by a loopback address, or add the name to HEADGATE_CONSOLE_HOSTS.',
  },
  login_required: {
    status: 401,
    sqlstate: '28000',
    retryable: false,
    message: 'log in first',
    hint: 'Open a new link from headgate console, or log in with a role and its password.',
  },
  login_failed: {
    status: 401,
    sqlstate: '28P01',
    retryable: false,
    message: 'the link, or the role and its password, is not valid',
    hint: 'A link works once and for 10 minutes: headgate console prints a new one. Role and password are those of the SQL port.',
  },
  login_rate: {
    status: 429,
    sqlstate: '53400',
    retryable: true,
    message: 'too many attempts from this address',
    hint: 'Wait a minute.',
  },
  login_shared: {
    status: 403,
    sqlstate: '42501',
    retryable: false,
    message: 'a login that came of a shared link may not do this',
    hint: 'Log in with a role and its password, or by a link of headgate console.',
  },
  foreign_page: {
    status: 403,
    sqlstate: '42501',
    retryable: false,
    message: 'only pages of the console itself may request this',
    hint: 'Programs must send the headers X-Headgate-Console: 1 and Content-Type: application/json.',
  },
  replay_impossible: {
    status: 409,
    sqlstate: '55000',
    retryable: false,
    message: 'this request cannot be sent again',
    hint: 'Only a request that VALIDATE … USING a sender checks can be signed again. A refused request can be retried, or stored without its check.',
  },
  answer_too_large: {
    status: 413,
    sqlstate: '54000',
    retryable: false,
    message: 'the answer is larger than 8 MiB',
    hint: 'Read less: fewer columns, or LIMIT.',
  },
} as const;
