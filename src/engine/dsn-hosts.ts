/**
 * Several hosts in one connection string, as libpq reads them: `postgresql://user@h1:5432,h2/db`, or
 * `?host=h1,h2&port=5432,5433`. Pure: takes the text, returns one text for each host, in order; null: the lists of
 * hosts and ports do not match.
 */
export function splitHosts(databaseUrl: string): readonly string[] | null {
  const [, scheme = '', authority = '', rest = ''] = /^([a-z]+:\/\/)([^/?#]*)(.*)$/s.exec(databaseUrl) ?? [];
  if (scheme === '') return [databaseUrl];
  const at = authority.lastIndexOf('@') + 1;
  const named = authority.slice(at).split(',');
  const hosts = parameter(rest, 'host');
  const ports = parameter(rest, 'port');
  const count = hosts?.length ?? named.length;
  if (hosts !== null && named.length > 1) return null;
  // One port for all, or one for each.
  if (ports !== null && ports.length > 1 && ports.length !== count) return null;
  return Array.from({ length: count }, (_, i) => {
    let options = rest;
    if (hosts !== null) options = withParameter(options, 'host', hosts[i] ?? '');
    if (ports !== null) options = withParameter(options, 'port', ports[i] ?? ports[0] ?? '');
    return `${scheme}${authority.slice(0, at)}${named[i] ?? named[0] ?? ''}${options}`;
  });
}

/** The comma-separated texts, still percent-encoded; null: there is no such parameter. */
function parameter(rest: string, name: string): string[] | null {
  const value = new RegExp(`[?&]${name}=([^&#]*)`).exec(rest)?.[1];
  return value === undefined ? null : value.replaceAll(/%2c/gi, ',').split(',');
}

function withParameter(rest: string, name: string, value: string): string {
  return rest.replace(new RegExp(`([?&]${name}=)[^&#]*`), (_, before: string) => before + value);
}
