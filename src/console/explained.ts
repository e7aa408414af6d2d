/**
 * Why a request was refused, as a person would say it: what happened in one sentence, what that means, and what to do about it. From the code
 * of the refusal and what was decisive at its arrival (`cause`), never from a second look. Without SQL and without system text, which the
 * page shows beside it. Pure.
 */
import type { Cause } from '../types/cause.ts';
import { ageText, columnOf, cut, isNoObject, notJsonOf } from './outcome-summary.ts';
import type { ToExplain } from './outcome-summary.ts';
import { spanText } from '../kit/duration.ts';
import { sizeText } from './visible-text.ts';

export interface Explained {
  readonly title: string;
  readonly says: string;
  readonly todo: readonly NextStep[];
}

export interface NextStep {
  readonly what: string;
  readonly why: string;
  /** What the page offers beside it. */
  readonly offer?: 'secret' | 'same' | 'sql' | 'health' | 'endpoint';
}

const nothing = 'Nothing was stored.';

export function explain(it: ToExplain): Explained {
  const { code, cause } = it;
  if (code === 'signature_failed') return explainCheck(it, cause ?? { kind: 'other' });
  const { title, says = nothing, todo } = entryOf(it);
  return { title, says, todo };
}

const who = ({ sender }: ToExplain): string => sender ?? 'The sender';
const whose = ({ sender }: ToExplain): string => (sender === null ? 'the limit' : `${sender}’s limit`);

/** What a check found, and what it says of its request. */
interface Checked {
  readonly it: ToExplain;
  readonly cause: Cause;
  readonly header: string;
  /** The last thing to do. */
  readonly again: NextStep;
}

function explainCheck(it: ToExplain, cause: Cause): Explained {
  const header = cause.header ?? 'its signature';
  const again: NextStep = {
    what: `Let ${it.sender ?? 'its sender'} send it once more.`,
    why: 'Headgate cannot check it again: its signature was not kept, because it may be a credential.',
  };
  const made = Object.hasOwn(checks, cause.kind) ? checks[cause.kind] : checks.other;
  return made({ it, cause, header, again });
}

function explainClock(it: ToExplain, { ageS, limitS, signature }: Cause, again: NextStep): Explained {
  const limit = limitS === undefined ? '' : `; ${whose(it)} is ${spanText(limitS)}`;
  const looked =
    signature === 'not looked at'
      ? 'The signature itself was not looked at: whether the secret is right is not known.'
      : signature === 'right'
        ? 'The signature was right.'
        : '';
  if (ageS !== undefined && ageS < 0)
    return {
      title: `The timestamp is ${ageText(ageS, limitS)} ahead of this machine’s clock${limit}.`,
      says: `${nothing} ${looked}`.trim(),
      todo: [
        {
          what: 'Set the clock of this machine.',
          why: 'If requests of other senders are late or ahead as well, it is this clock.',
          offer: 'same',
        },
        again,
      ],
    };
  return {
    title:
      ageS === undefined
        ? limitS === undefined
          ? 'The timestamp is further from this machine’s clock than the check allows.'
          : `The timestamp is further from this machine’s clock than ${whose(it)} of ${spanText(limitS)}.`
        : `The timestamp is ${ageText(ageS, limitS)} old${limit}.`,
    says: `${nothing} ${looked}`.trim(),
    todo: [
      {
        what: 'Nothing, if it stays at a few.',
        why: `${who(it)} may send it again, with a new time.`,
      },
      {
        what: 'Look what holds requests up.',
        why: 'A proxy that queues, a sender that catches up after an outage, or the clock of this machine.',
        offer: 'same',
      },
      again,
    ],
  };
}

const explainAbsent = ({ it, cause, header }: Checked): Explained => ({
  title: `The header ${header} ${cause.kind === 'missing' ? 'is missing' : 'is empty'}.`,
  says: `${nothing} ${it.sender === null ? 'The check needs it' : `${it.sender} signs with it`}, so there was nothing to check.`,
  todo: [
    {
      what: it.sender === null ? 'Look who calls this address.' : `Look whether it came from ${it.sender}.`,
      why: 'Its address and its other headers tell. Anybody who knows the address of an endpoint can send to it.',
      offer: 'same',
    },
    {
      what: 'Look for a proxy that removes the header.',
      why: 'And at the sender, whether it has a secret to sign with: some send unsigned requests until they have one.',
    },
  ],
});

const checks: Readonly<Record<Cause['kind'], (checked: Checked) => Explained>> = {
  clock: ({ it, cause, again }) => explainClock(it, cause, again),
  ahead: ({ it, cause, again }) => explainClock(it, cause, again),
  missing: explainAbsent,
  empty: explainAbsent,
  twice: ({ header }) => ({
    title: `The header ${header} arrived twice.`,
    says: `${nothing} Which of the two the sender has signed with cannot be known.`,
    todo: [{ what: 'Look for a proxy that adds the header once more.', why: 'A sender writes it once.' }],
  }),
  prefix: ({ it, header, again }) => ({
    title: `${header} does not have the form of ${it.sender === null ? 'the check' : `${it.sender}’s signature`}.`,
    says: `${nothing} It was signed in another way, or by somebody else.`,
    todo: [
      {
        what: 'Compare the sender of the table with who really sends.',
        why: 'The headers below tell.',
        offer: 'endpoint',
      },
      again,
    ],
  }),
  signature: ({ it, again }) => ({
    title: `${who(it)} signed it with another secret, or it was changed on the way.`,
    says: nothing,
    todo: [
      {
        what: 'Set the secret that its sender shows now.',
        why: 'If none from this sender is accepted any more, it was most likely replaced there.',
        offer: 'secret',
      },
      {
        what: 'If only some fail, look for a proxy that changes bodies.',
        why: 'The signature is of every byte: even another white space makes it wrong.',
        offer: 'same',
      },
      again,
    ],
  }),
  key: ({ cause, again }) => ({
    title: `The key in ${cause.header ?? 'the request'} is not that of this endpoint.`,
    says: nothing,
    todo: [
      {
        what: 'Set the key that its sender has now, or give the sender this one.',
        why: 'It is compared letter for letter.',
        offer: 'secret',
      },
      again,
    ],
  }),
  token: ({ again }) => ({
    title: 'Its token does not verify: another key, another audience, or it has expired.',
    says: nothing,
    todo: [
      {
        what: 'Compare the key and the claims that the check asks for.',
        why: 'The steps below say which part was not true.',
        offer: 'secret',
      },
      again,
    ],
  }),
  url: ({ it, again }) => ({
    title: 'The public address of this Headgate is not set.',
    says: `${nothing} ${who(it)} signs the address that it calls, and Headgate has to know it.`,
    todo: [
      {
        what: 'Set HEADGATE_PUBLIC_URL, and start Headgate again.',
        why: 'It is the part of the address before /webhook/.',
      },
      again,
    ],
  }),
  error: ({ again }) => ({
    title: 'The check itself failed on this request.',
    says: `${nothing} A part of it raised an error, and a check that cannot be finished accepts nothing.`,
    todo: [
      {
        what: 'Look which part it was.',
        why: 'The steps below name it. Often a value has another form than the check expects.',
        offer: 'endpoint',
      },
      again,
    ],
  }),
  other: ({ again }) => ({
    title: 'The check of the endpoint did not accept it.',
    says: nothing,
    todo: [
      {
        what: 'Look which part was not true.',
        why: 'The steps below show it, as far as it was kept.',
        offer: 'endpoint',
      },
      again,
    ],
  }),
};

interface ExplainedEntry {
  readonly title: string;
  readonly says?: string;
  readonly todo: readonly NextStep[];
}

function entryOf(it: ToExplain): ExplainedEntry {
  const { code, status } = it;
  const made = Object.hasOwn(entries, code) ? entries[code as keyof typeof entries] : undefined;
  if (made !== undefined) return typeof made === 'function' ? made(it) : made;
  const words = code.replaceAll('_', ' ');
  if (status >= 500)
    return {
      title: 'The request was told to come again.',
      says: `It was answered ${status}: ${words}.`,
      todo: [
        {
          what: 'Nothing: its sender has it still, and sends it again.',
          why: 'Most senders do so for hours or days.',
          offer: 'health',
        },
      ],
    };
  return {
    title: `It was answered ${status}: ${words}.`,
    todo: [
      {
        what: 'Look at the code among the refusals of the manual.',
        why: 'It says what the sender has to change.',
      },
    ],
  };
}

const fixSender = (what: string, why: string): readonly NextStep[] => [{ what, why }];
const come = (title: string, says: string): ExplainedEntry => ({
  title,
  says,
  todo: [
    {
      what: 'Nothing about this request: its sender was told to send it again.',
      why: 'Most senders do so for hours or days.',
    },
    { what: 'Look what is wrong here.', why: 'Health says it, and since when.', offer: 'health' },
  ],
});

const large = ({ bytes }: ToExplain): ExplainedEntry => ({
  title:
    bytes === null
      ? 'The body is larger than this endpoint accepts.'
      : `The body has ${sizeText(bytes)}, more than this endpoint accepts.`,
  todo: [
    { what: 'Let the sender send less in one request.', why: 'Most can leave out parts, or split them.' },
    {
      what: 'Or accept larger bodies: HEADGATE_BODY_BYTES_MAX.',
      why: 'Each of them is in memory while it is stored.',
    },
  ],
});

/** The last thing to do about a request that fits once the table is changed: its retry, or what stands in for it. */
function thenAgain({ door, bytes, keptBytes = null, owned }: ToExplain): NextStep {
  if (door === 'websocket')
    return {
      what: 'Then let its client send it again.',
      why: 'The batches of a WebSocket come in an order that only its client can repeat.',
    };
  const whose = 'Then let its sender send it again.';
  if (keptBytes === null) return { what: whose, why: `It cannot be retried here: ${notKeptBecause}.` };
  return bytes !== null && keptBytes < bytes
    ? { what: whose, why: `It cannot be retried here: ${partKeptBecause}.` }
    : {
        what: owned === false ? 'Then let the owner of its table retry it here.' : 'Then retry it here.',
        why: 'Its whole body is kept.',
      };
}

/** Of a refused request; the limits are those of limits-requests.ts, from `rejectedBodyBytesMax` to `rejectedPerSecond`. */
export const notKeptBecause =
  'of the requests that a table refuses 1,000 that passed its check and 100 others are kept at once, and of each kind 10 a second after that; the rest is only counted';
export const partKeptBecause =
  'the first 1 MiB of a refused body is kept if the request passed the check, and otherwise the first 64 KiB; this one is larger';

/** `place`: of a body of several documents, e.g. `line 7`. */
const notJson = ({ reason }: ToExplain): ExplainedEntry => {
  const [, place] = /^((?:line|item) \d+): /.exec(reason ?? '') ?? [];
  const what = notJsonOf(reason);
  if (what?.startsWith('it is a form') === true)
    return {
      title: 'The body is a form, and the table takes JSON.',
      todo: [
        {
          what: 'Set the content type at the sender to application/json.',
          why: 'GitHub, for one, sends a form unless its webhook says so.',
        },
        {
          what: "Or create the table WITH (format = 'form').",
          why: 'What the sender puts into a field of the form is then the text of the member of that name.',
        },
      ],
    };
  return {
    title: `${place === undefined ? 'The body' : `${place[0]?.toUpperCase()}${place.slice(1)} of the body`} is not JSON${what === null ? ' that can be stored' : `: ${what}`}.`,
    todo: [
      {
        what: 'Look at the body: is it cut off, a form, or text?',
        why: 'Forms and texts need a table of that format. Zero bytes and half surrogates cannot be stored unless the table replaces them.',
      },
      { what: 'Let the sender send JSON.', why: 'A retry cannot help: the body stays what it is.' },
    ],
  };
};

const misfit = (it: ToExplain): ExplainedEntry => {
  if (notJsonOf(it.reason) !== null) return notJson(it);
  if (isNoObject(it.reason))
    return {
      title: 'The body is JSON, but not an object, so it has no values for the columns.',
      todo: fixSender(
        'Let the sender send an object, or let the table keep the whole document.',
        'A retry cannot help before that.',
      ),
    };
  const column = columnOf(it.reason);
  return {
    title:
      column === null
        ? 'A value of the document does not fit the table.'
        : `The value for column ${column} does not fit it.`,
    todo: [
      {
        what: 'Change the column, or what the sender writes.',
        why: 'The words of PostgreSQL say what is wrong with it.',
        offer: 'endpoint',
      },
      thenAgain(it),
    ],
  };
};

const refusedRow = (it: ToExplain): ExplainedEntry => {
  const { reason, door } = it;
  const column = columnOf(reason);
  return {
    title: column === null ? 'The table refused the row.' : `Column ${column} of the table refused the row.`,
    says:
      door === 'spool'
        ? 'It was accepted while the database was away, and the table refused it afterwards. It is kept here until you delete it.'
        : nothing,
    todo: [
      {
        what: 'Look at the constraint, key or trigger that the words of PostgreSQL name.',
        why: 'Change it if the row is right.',
        offer: 'endpoint',
      },
      thenAgain(it),
    ],
  };
};

const entries: Readonly<Record<string, ExplainedEntry | ((it: ToExplain) => ExplainedEntry)>> = {
  body_too_large: large,
  payload_undecodable: misfit,
  row_refused: refusedRow,
  body_not_json: notJson,
  body_not_form: {
    title: 'The table takes forms, and the body is not a form.',
    todo: fixSender(
      'Let the sender send a form, or make the table take JSON.',
      'The Content-Type below says what it was.',
    ),
  },
  no_column_matched: (it) => ({
    title: 'No key of the document is a column of the table.',
    says: `${nothing} None of it would have been.`,
    todo: [
      {
        what: 'Add columns named after the keys, or let the table keep the whole document.',
        why: 'Names are compared with their case.',
        offer: 'endpoint',
      },
      thenAgain(it),
    ],
  }),
  key_unknown: (it) => ({
    title: 'The document has a key that is not a column of the table, and the table refuses those.',
    todo: [
      {
        what: 'Add the column, or let the table ignore or collect such keys.',
        why: 'Names are compared with their case.',
        offer: 'endpoint',
      },
      thenAgain(it),
    ],
  }),
  delivery_id_missing: {
    title: 'The request has no delivery id, and the table stores each delivery once.',
    todo: fixSender('Look where the sender writes the id.', 'The table may expect it in another place.'),
  },
  version_missing: {
    title: 'The row does not say how new it is, and the table stores only newer rows.',
    todo: fixSender(
      'Look where the sender writes the version.',
      'It may be missing, or a value that cannot be compared.',
    ),
  },
  delivery_differs: {
    title: 'Another delivery with this id, and another body, is stored already.',
    says: 'It was not stored as a row, and is kept here until you decide.',
    todo: [
      {
        what: 'Compare the two bodies, and store this one as well if it is another event.',
        why: 'Some senders reuse ids, and some change a body when they repeat it.',
      },
    ],
  },
  invalid_option: {
    title: 'A header with an option for Headgate has an unknown value.',
    todo: fixSender(
      'Correct the header that begins with x-rw-webhook-.',
      'The manual lists the known values.',
    ),
  },
  malformed_encoding: {
    title: 'The body is not what its Content-Encoding says.',
    todo: fixSender(
      'Look for a proxy that unpacks bodies and leaves the header.',
      'Or for a body that was cut off.',
    ),
  },
  malformed_payload: {
    title: 'The message on the WebSocket is neither its beginning nor a batch of rows.',
    todo: fixSender(
      'Correct the client.',
      'Each message is one JSON document, and the ids of batches increase.',
    ),
  },
  timestamp_skew: {
    title: 'The time of sending in the first message differs too much from this machine’s clock.',
    todo: fixSender('Compare the two clocks.', 'It is in milliseconds since 1970.'),
  },
  length_required: {
    title: 'The request does not say how long its body is.',
    todo: fixSender(
      'Let the sender send Content-Length, or in chunks.',
      'Every HTTP library does it by itself.',
    ),
  },
  encoding_unsupported: {
    title: 'The body is compressed in a way that Headgate does not know.',
    todo: fixSender('Let the sender compress with gzip, deflate or br, or not at all.', nothing),
  },
  not_found: ({ path }) => ({
    title: 'There is no endpoint at this address.',
    says: path === undefined ? nothing : `${nothing} It called ${cut(path, 120)}.`,
    todo: [
      {
        what: 'Compare the address at the sender with that of the endpoint, letter by letter.',
        why: 'Database, schema and table are parts of it.',
        offer: 'endpoint',
      },
    ],
  }),
  malformed_path: {
    title: 'The address is not that of an endpoint.',
    todo: fixSender('Use /webhook/, then database, schema and table.', 'Each part is percent-encoded UTF-8.'),
  },
  method_not_allowed: ({ path }) => ({
    title: 'The endpoint does not take this method.',
    says: path === undefined ? nothing : `${nothing} It called ${cut(path, 120)}.`,
    todo: fixSender(
      'Nothing, if it was a browser or a scanner.',
      'Webhooks are sent by POST; a table with the option methods takes GET, PUT and PATCH, too.',
    ),
  }),
  malformed_request: {
    title: 'The request is not valid HTTP.',
    todo: fixSender(
      'Nothing, if it was a scanner.',
      'Webhooks are sent by HTTP libraries, which do this right.',
    ),
  },
  request_aborted: {
    title: 'The connection ended before the whole request had arrived.',
    todo: fixSender('Nothing, if it stays at a few.', 'Its sender most likely sends it again.'),
  },
  request_timeout: {
    title: 'The request did not arrive in time.',
    todo: fixSender('Nothing, if it stays at a few.', 'Its sender most likely sends it again.'),
  },
  headers_too_large: {
    title: 'The headers of the request are too large.',
    todo: fixSender('Look what makes them large.', 'Often it is a cookie or a chain of proxies.'),
  },
  path_too_long: {
    title: 'The address of the request is too long.',
    todo: fixSender('Use only the address of the endpoint.', nothing),
  },
  expectation_failed: {
    title: 'The request expects something that Headgate does not offer.',
    todo: fixSender('Leave out the header Expect.', nothing),
  },
  address_refused: {
    title: 'Requests from this address are not accepted here.',
    todo: fixSender(
      'Add the network of the sender to HEADGATE_LISTEN_NETWORKS.',
      'Behind a proxy, HEADGATE_TRUSTED_PROXIES says whose address counts.',
    ),
  },
  rate_limited: {
    title: 'More requests came than the limits of this Headgate allow.',
    todo: fixSender('Nothing: its sender was told when to come again.', 'The limits are the RATE settings.'),
  },
  sender_overloaded: {
    title: 'Too many bytes from this address were under way at one time.',
    todo: fixSender(
      'Nothing, if it stays at a few.',
      'Behind a proxy, HEADGATE_TRUSTED_PROXIES says whose address counts.',
    ),
  },
  origin_refused: {
    title: 'Web pages of this origin may not send here.',
    todo: fixSender('Add the origin to HEADGATE_WEBSOCKET_ORIGINS.', nothing),
  },
  upgrade_required: {
    title: 'Only WebSockets are accepted at this address.',
    todo: fixSender('Send webhooks to /webhook/ instead.', nothing),
  },
  websocket_unsupported: {
    title: 'This table accepts no WebSockets, because its rows go to another server.',
    todo: fixSender('Send each request over HTTP.', nothing),
  },
  engine_unavailable: come('The database did not answer.', 'Nothing was stored.'),
  commit_unknown: come(
    'The connection to the database was lost while the row was being stored.',
    'Whether it was stored is not known; a table with a key stores the repetition once.',
  ),
  deadline: come(
    'The database did not answer in time.',
    'Whether it was stored is not known; a table with a key stores the repetition once.',
  ),
  lane_full: come('Too many requests were waiting for this table.', 'Nothing was stored.'),
  overloaded: come('Too many requests were under way.', 'Nothing was stored.'),
  table_unusable: come(
    'This table cannot be used: its check, a secret, a column or a right is at fault.',
    'Nothing was stored.',
  ),
  table_changed: come('The table was changed while the row was being stored.', 'Nothing was stored.'),
  chain_broken: come('Rows before these on the same connection were not stored.', 'Nothing was stored.'),
  spool_full: come(
    'The database was away, and the disk for waiting requests is full.',
    'Nothing was stored.',
  ),
  spooling: come('Older requests of this table were still on disk.', 'Nothing was stored.'),
  draining: come('Headgate was shutting down.', 'Nothing was stored.'),
  table_gone: come(
    'The table that it was kept for no longer exists.',
    'It is kept here until a superuser deletes it.',
  ),
  internal: come('Headgate made a mistake.', 'Whether it was stored is not known. The log has the error.'),
};
