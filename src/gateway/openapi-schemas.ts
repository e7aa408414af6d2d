/**
 * The requests and answers of the events gateway as JSON Schema for OpenAPI: the components of its document
 * (openapi.ts). The bodies themselves are parsed and written byte by byte elsewhere. Pure.
 */
const text = (description: string) => ({ type: 'string', description });
const integer = (description: string) => ({ type: 'integer', description });
const list = (items: object, description: string) => ({ type: 'array', items, description });
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

const object = (properties: Readonly<Record<string, object>>, required: readonly string[]) => ({
  type: 'object',
  properties,
  required,
});

const resultMembers = {
  columns: list(ref('Column'), 'in their order'),
  rows: list(ref('Row'), 'each with its columns as members'),
  rowsAffected: integer('as the database counts them'),
  command: text('the command tag, e.g. SELECT'),
};
const resultRequired = ['columns', 'rows', 'rowsAffected', 'command'];

const diagnostics = { detail: text('more about it'), hint: text('what can be done') };

export const schemas = {
  Event: {
    type: 'object',
    additionalProperties: true,
    description: 'Members fill the columns of the same name; a missing one leaves the column to its default.',
  },
  EventsAnswer: object(
    {
      rows: integer('committed'),
      stale: integer('of a table with version: rows that were not newer than what it has; absent: none'),
      skipped: list(ref('SkippedLine'), 'with on_error=skip: lines that were left out, at most 1000 of them'),
      skippedTotal: integer('with on_error=skip: how many were left out'),
    },
    ['rows'],
  ),
  SkippedLine: object({ line: integer('from 1'), error: text('why') }, ['line', 'error']),
  SqlStatement: {
    ...object(
      {
        sql: { ...text('one statement if there are params or each, else any number'), minLength: 1 },
        params: list({ nullable: true, description: 'any JSON value' }, 'the values of $1, $2 …'),
        each: list(
          { type: 'array', items: { nullable: true, description: 'any JSON value' } },
          'instead of params: the statement is executed with each of these lists, in one transaction',
        ),
      },
      ['sql'],
    ),
    additionalProperties: false,
  },
  SqlAnswer: object(
    {
      ...resultMembers,
      results: list(ref('SqlResult'), 'of every statement, where there are several'),
      notices: list(ref('Notice'), 'what the database told beside the results'),
    },
    resultRequired,
  ),
  SqlResult: object(resultMembers, resultRequired),
  Column: object({ name: text('as in the rows'), type: text('as format_type prints it') }, ['name', 'type']),
  Row: {
    type: 'object',
    additionalProperties: true,
    description: 'Numbers have every digit that the database printed.',
  },
  Notice: object({ severity: text('e.g. NOTICE'), message: text('one sentence'), ...diagnostics }, [
    'severity',
    'message',
  ]),
  SqlError: object(
    {
      error: text('one sentence'),
      code: { ...text('the SQLSTATE'), pattern: '^[0-9A-Z]{5}$' },
      position: integer('in the SQL as it was sent, in characters from 1'),
      ...diagnostics,
    },
    ['error', 'code'],
  ),
  Health: object({ status: { type: 'string', enum: ['ok'] } }, ['status']),
} as const satisfies Readonly<Record<string, object>>;

/** A refusal of Headgate, with its codes; `more`: further members. */
export function refusalSchema(codes: readonly string[], more: Readonly<Record<string, object>> = {}): object {
  return object({ error: text('one sentence'), code: { type: 'string', enum: codes }, ...more }, [
    'error',
    'code',
  ]);
}

export const lineMember = { line: integer('the line at fault, from 1') };
export const requestIdMember = { request_id: text('by which the log has more') };
