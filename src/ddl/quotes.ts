/** Where quoted parts end. All functions take a text and an offset, and return an offset, or -1 if there is no end. Pure. */

/** After the closing quote for the quote at `start`; a doubled quote stands for itself. */
export function plainEnd(text: string, start: number, quote: "'" | '"'): number {
  for (let at = start + 1; ; at += 2) {
    at = text.indexOf(quote, at);
    if (at < 0) return -1;
    if (text[at + 1] !== quote) return at + 1;
  }
}

/** The same for a literal with backslash escapes. */
export function escapedEnd(text: string, quote: number): number {
  for (let at = quote + 1; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x5c) at++;
    else if (char === 0x27) {
      if (text.charCodeAt(at + 1) !== 0x27) return at + 1;
      at++;
    }
  }
  return -1;
}

/** Where the next part of a literal begins: after white space and comments that contain a line break; -1: it has none. */
export function continuation(text: string, end: number): number {
  let broken = false;
  for (let at = end; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x27) return broken ? at : -1;
    if (char === 0x0a || char === 0x0d) broken = true;
    else if (char === 0x2d && text.charCodeAt(at + 1) === 0x2d) at = lineEnd(text, at) - 1;
    else if (char !== 0x20 && char !== 0x09 && char !== 0x0c && char !== 0x0b) return -1;
  }
  return -1;
}

export function lineEnd(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x0a || char === 0x0d) return at;
  }
  return text.length;
}
