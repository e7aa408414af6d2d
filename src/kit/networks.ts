/** Networks of IP addresses, written `10.0.0.0/8, 2001:db8::/32, 203.0.113.9`. */
import { BlockList, isIP } from 'node:net';
import { canonicalAddress } from './address.ts';

/** `10.0.0.1/8`: the address is not the first one of its network, so either may have been meant. */
interface AmbiguousNetwork {
  readonly text: string;
  readonly network: string;
  readonly address: string;
}

export class Networks {
  readonly #list: BlockList;
  readonly wide: readonly AmbiguousNetwork[];

  private constructor(list: BlockList, wide: readonly AmbiguousNetwork[]) {
    this.#list = list;
    this.wide = wide;
  }

  /** Parses texts between commas or blanks; returns the first one that is no network, if any. */
  static parse(text: string): Networks | { readonly wrong: string } {
    const list = new BlockList();
    const words = text.split(/[\s,]+/).filter((word) => word !== '');
    if (words.length === 0) return { wrong: text };
    for (const word of words) if (!addNetwork(list, word)) return { wrong: word };
    return new Networks(list, words.flatMap(wideOf));
  }

  /** `address` as canonicalAddress() gives it. */
  has(address: string): boolean {
    return this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  }
}

function addNetwork(list: BlockList, word: string): boolean {
  const [text = '', length, ...more] = word.split('/');
  const address = text.includes('%') ? null : canonicalAddress(text);
  // The prefix of an IPv4-mapped network would have to be counted from another end.
  if (address === null || more.length > 0 || isIP(address) !== isIP(text)) return false;
  const [family, bits] = isIP(address) === 4 ? (['ipv4', 32] as const) : (['ipv6', 128] as const);
  if (length === undefined) {
    list.addAddress(address, family);
    return true;
  }
  if (!/^\d{1,3}$/.test(length) || Number(length) > bits) return false;
  list.addSubnet(address, Number(length), family);
  return true;
}

/** `text` is known to be a network. */
function wideOf(text: string): AmbiguousNetwork[] {
  const [address = '', length] = text.split('/');
  if (length === undefined) return [];
  const bytes = addressBytes(address);
  const kept = bytes.map(
    (byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, Number(length) - i * 8))) & 0xff,
  );
  if (kept.every((byte, i) => byte === bytes[i])) return [];
  return [{ text, network: `${addressText(kept)}/${length}`, address }];
}

/** 4 bytes for IPv4, 16 for IPv6. */
function addressBytes(address: string): readonly number[] {
  if (isIP(address) === 4) return address.split('.').map(Number);
  // The URL parser writes every IPv6 address one way, in hexadecimal groups with one gap.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => parseInt(group, 16)));
  const [front, back] = [groups(head), groups(tail ?? '')];
  const gap = Array.from({ length: 8 - front.length - back.length }, () => 0);
  return [...front, ...gap, ...back].flatMap((group) => [group >> 8, group & 0xff]);
}

function addressText(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = bytes.flatMap((byte, i) =>
    i % 2 === 0 ? [((byte << 8) | (bytes[i + 1] ?? 0)).toString(16)] : [],
  );
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
}
