/**
 * The grammar of multipart/form-data (RFC 7578): parts between lines of `--boundary`, each with a head of its own. The boundary is read
 * from the first line of the body, so that everybody who reads a body, with its Content-Type or without, finds the same parts in it.
 * Takes bytes, returns parts of them; throws FormProblem. Pure; one pass, in slices.
 */
import { isUtf8 } from 'node:buffer';

/** Why bytes are no form, or one that cannot be stored, without any text of them. */
export class FormProblem extends Error {
  readonly kind: 'form' | 'text' | 'size';

  constructor(message: string, kind: FormProblem['kind'] = 'form') {
    super(message);
    this.kind = kind;
  }
}

export interface FormPart {
  readonly name: string;
  /** null: a field, and no file. */
  readonly fileName: string | null;
  /** Its Content-Type as written; null: it has none. */
  readonly type: string | null;
  readonly content: Buffer;
}

export interface PartLimits {
  readonly fieldsMax: number;
  /** The head of one part, with its name. */
  readonly headBytesMax: number;
  /** How much is searched before a pause. */
  readonly sliceBytes: number;
}

/** RFC 2046 §5.1.1 */
const boundaryCharsMax = 70;
const lineEnd = '\r\n';
const dash = 0x2d;

/** The boundary that the body begins with; null: it is no multipart body. No urlencoded form has a line end. */
export function openingBoundary(body: Buffer): string | null {
  if (body[0] !== dash || body[1] !== dash) return null;
  const start = body.toString('latin1', 2, 2 + boundaryCharsMax + 4);
  // A form without any part is its last line alone.
  const empty = /^([\x21-\x7e]{1,70})--(?:\r\n)?$/.exec(start);
  return empty?.[1] ?? /^([\x21-\x7e]{1,70})\r\n/.exec(start)?.[1] ?? null;
}

/** The parts of a body that begins with the boundary; null is a pause, of which there is one at least every `sliceBytes`. */
export function* partsOf(body: Buffer, boundary: string, limits: PartLimits): Generator<FormPart | null> {
  const delimiter = Buffer.from(`${lineEnd}--${boundary}`, 'latin1');
  let at = delimiter.length - lineEnd.length;
  let pauseAt = limits.sliceBytes;
  for (let count = 0; !isLast(body, at); count++) {
    if (count === limits.fieldsMax)
      throw new FormProblem(`a form has at most ${limits.fieldsMax} fields`, 'size');
    if (body.toString('latin1', at, at + 2) !== lineEnd)
      throw new FormProblem('its boundary is followed by something else');
    const head = body.subarray(at, at + limits.headBytesMax).indexOf('\r\n\r\n');
    if (head < 0) throw new FormProblem('a part has no head, or one that is too long');
    const start = at + head + 4;
    let end = -1;
    // The line end of an empty content is that of the head.
    for (let from = start - lineEnd.length; end < 0; from += limits.sliceBytes) {
      if (from >= body.length) throw new FormProblem('it ends in the middle of a part');
      const found = body.subarray(from, from + limits.sliceBytes + delimiter.length).indexOf(delimiter);
      if (found >= 0) end = from + found;
      if (found >= 0 && end < pauseAt) continue;
      pauseAt = from + limits.sliceBytes * 2;
      yield null;
    }
    yield partOf(body.subarray(at + 2, at + head + 2), body.subarray(start, Math.max(start, end)));
    at = end + delimiter.length;
  }
}

/** Whatever follows the last boundary is no part of the form (RFC 2046 §5.1.1). */
const isLast = (body: Buffer, at: number): boolean => body[at] === dash && body[at + 1] === dash;

function partOf(head: Buffer, content: Buffer): FormPart {
  const fields = headFields(headText(head));
  const disposition = fields.get('content-disposition') ?? '';
  const parameters = parametersOf(disposition);
  const name = parameters.get('name');
  if (!/^form-data\s*(?:;|$)/i.test(disposition) || name === undefined)
    throw new FormProblem('a part has no name');
  return {
    name: unescaped(name),
    fileName: fileNameOf(parameters),
    type: fields.get('content-type') ?? null,
    content: decoded(content, fields.get('content-transfer-encoding')),
  };
}

const headText = (head: Buffer): string => head.toString(isUtf8(head) ? 'utf8' : 'latin1');

function headFields(head: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  // A long field goes on in the next line, if that is indented (RFC 5322 §2.2.3).
  for (const line of head.replaceAll(/\r\n[\t ]+/g, ' ').split(lineEnd)) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (colon < 0 ? line !== '' : fields.has(name)) throw new FormProblem('the head of a part is malformed');
    fields.set(name, line.slice(colon + 1).trim());
  }
  return fields;
}

/** The first of several with the same name counts. */
function parametersOf(value: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of value.matchAll(
    /;\s*([\w*-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^";\s]*))/g,
  )) {
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted ?? plain);
  }
  return found;
}

/** Programs write a quote as `\"` (curl until 7.81, Python), browsers as `%22`; a path of Windows keeps its backslashes. */
function unescaped(text: string): string {
  return text.replaceAll(/\\(["\\])/g, '$1').replaceAll(/%0D|%0A|%22/gi, (code) => decodeURIComponent(code));
}

function fileNameOf(parameters: ReadonlyMap<string, string>): string | null {
  // RFC 5987: charset'language'text. Python's requests writes names so that are not ASCII.
  const [, extended] = /^utf-8'[^']*'(.*)$/i.exec(parameters.get('filename*') ?? '') ?? [];
  if (extended !== undefined) {
    try {
      return decodeURIComponent(extended);
    } catch {
      throw new FormProblem('the name of a file is malformed');
    }
  }
  const plain = parameters.get('filename');
  return plain === undefined ? null : unescaped(plain);
}

function decoded(content: Buffer, encoding = 'binary'): Buffer {
  if (/^(?:7bit|8bit|binary)$/i.test(encoding)) return content;
  if (/^base64$/i.test(encoding)) return Buffer.from(content.toString('latin1'), 'base64');
  if (/^quoted-printable$/i.test(encoding))
    return Buffer.from(
      content
        .toString('latin1')
        .replaceAll('=\r\n', '')
        .replaceAll(/=([\dA-F]{2})/gi, (_, digits: string) =>
          String.fromCharCode(Number.parseInt(digits, 16)),
        ),
      'latin1',
    );
  throw new FormProblem('a part has a Content-Transfer-Encoding that is not known');
}

/** The charset of a Content-Type, in lower case; null: it names none. */
export function charsetOf(contentType: string | null): string | null {
  const [, charset] = /;\s*charset\s*=\s*"?([\w.:+-]+)"?/i.exec(contentType ?? '') ?? [];
  return charset?.toLowerCase() ?? null;
}
