/** Networks of IP addresses, written `10.0.0.0/8, 2001:db8::/32, 203.0.113.9`. */
import { BlockList, isIP } from 'node:net';
import { canonicalAddress } from './address.ts';

export class Networks {
  readonly #list: BlockList;

  private constructor(list: BlockList) {
    this.#list = list;
  }

  /** Texts between commas or blanks; gives the one that is no network instead when there is such a one. */
  static parse(text: string): Networks | { readonly wrong: string } {
    const list = new BlockList();
    const words = text.split(/[\s,]+/).filter((word) => word !== '');
    if (words.length === 0) return { wrong: text };
    for (const word of words) if (!addNetwork(list, word)) return { wrong: word };
    return new Networks(list);
  }

  /** `address` as canonicalAddress() gives it. */
  has(address: string): boolean {
    return this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  }
}

function addNetwork(list: BlockList, word: string): boolean {
  const [text = '', length, ...more] = word.split('/');
  const address = text.includes('%') ? null : canonicalAddress(text);
  // A mapped IPv4 network would have to be counted from another end.
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
