/** Watches of the stand-in: the changes since a version, then new ones, filtered by a label selector. */
import type { ServerResponse } from 'node:http';
import type { Fields } from './managed-fields.ts';
import type { Change, Resource, Store, Stored } from './store.ts';

/** Equality only: `a=b,c=d`. */
export function selects(selector: string | null, { metadata }: Stored): boolean {
  const labels = (metadata['labels'] ?? {}) as Fields;
  return (selector ?? '').split(',').every((term) => {
    const [name = '', value] = term.split('=');
    return term === '' || labels[name] === value;
  });
}

export interface Watched {
  readonly resource: Resource;
  readonly namespace: string | null;
}

export function serveWatch(
  store: Store,
  { resource, namespace }: Watched,
  url: URL,
  response: ServerResponse,
): void {
  const selector = url.searchParams.get('labelSelector');
  const write = (type: string, object: object) =>
    void response.write(`${JSON.stringify({ type, object })}\n`);
  response.writeHead(200, { 'content-type': 'application/json' });
  response.flushHeaders();
  const from = Number(url.searchParams.get('resourceVersion') ?? '0');
  if (from < store.oldest) {
    // As on a real API server, the refusal is an event of a watch that started normally.
    const message = `too old resource version: ${from} (${store.oldest})`;
    write('ERROR', { kind: 'Status', status: 'Failure', reason: 'Expired', code: 410, message });
    response.end();
    return;
  }
  const tell = ({ type, resource: of, before, after }: Change) => {
    if (of !== resource || (namespace ?? after.metadata.namespace) !== after.metadata.namespace) return;
    const did = before !== null && selects(selector, before);
    const does = type !== 'DELETED' && selects(selector, after);
    // For this watch, an object that leaves the selector is deleted, and one that enters it is new.
    if (does) write(did ? 'MODIFIED' : 'ADDED', after);
    else if (did) write('DELETED', after);
  };
  for (const change of store.since(from)) tell(change);
  const bookmark = () => {
    const { kind, group, version } = resource;
    const apiVersion = `${group}/${version}`.replace(/^\//, '');
    write('BOOKMARK', { kind, apiVersion, metadata: { resourceVersion: String(store.version) } });
  };
  if (url.searchParams.get('allowWatchBookmarks') === 'true') bookmark();
  const unlisten = store.listen(tell);
  const seconds = Number(url.searchParams.get('timeoutSeconds') ?? '1800');
  const timer = setTimeout(() => response.end(), seconds * 1_000);
  response.once('close', () => {
    clearTimeout(timer);
    unlisten();
  });
}
