/**
 * A stand-in for a Kubernetes API server: HTTP, REST paths, list and watch with versions, pages and bookmarks, merge
 * patch and server-side apply, finalizers, status subresources, garbage collection, 410 Gone, and the rights of a
 * ClusterRole. No controllers: a test writes what a Deployment's controller would write to its status (`settle`).
 */
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { discovery } from './discovery.ts';
import { resources } from './resources.ts';
import { ApiFailure, Store } from './store.ts';
import type { Resource, Stored, Where } from './store.ts';
import type { Fields } from './managed-fields.ts';
import { selects, serveWatch } from './watch.ts';

export interface Asked {
  readonly method: string;
  readonly verb: string;
  readonly resource: Resource;
  readonly namespace: string | null;
  readonly name: string | null;
  readonly subresource: string | null;
}

/** `before`: the connection breaks and nothing was done; `after`: it was done, and the connection breaks anyway. */
export type Fault =
  | 'lost before'
  | 'lost after'
  | { readonly status: number; readonly reason: string }
  | null;

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

const token = 'a-service-account-token';

export class ApiServer {
  /** Several servers on one store are one cluster, reached by several networks. */
  readonly store: Store;
  /** Called before every request; the returned fault is applied to it. */
  fault: (asked: Asked) => Fault | Promise<Fault> = () => null;
  /** Accepts requests without a token: helm and kubectl send none without TLS. */
  isOpen = false;
  /** The rights granted; null: all. */
  rules: readonly Rule[] | null = null;
  /** Every right that was used: `verb group/resource`. */
  readonly used = new Set<string>();
  readonly asked: Asked[] = [];
  readonly #server: Server;
  readonly #watches = new Set<ServerResponse>();

  constructor(store = new Store()) {
    this.store = store;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async open(): Promise<this> {
    await new Promise<void>((resolve) => void this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  async close(): Promise<void> {
    this.dropWatches();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** For the real client, which accepts plain HTTP only if certificates are not checked. */
  kubeConfig(): KubeConfig {
    const config = new KubeConfig();
    config.loadFromString(this.kubeConfigText());
    return config;
  }

  kubeConfigText(): string {
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'stand-in', cluster: { server: this.url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'operator', user: { token } }],
      contexts: [
        { name: 'it', context: { cluster: 'stand-in', user: 'operator', namespace: 'headgate-operator' } },
      ],
      'current-context': 'it',
    });
  }

  dropWatches(): void {
    for (const response of this.#watches) response.destroy();
  }

  /** The number of open watches. */
  get watches(): number {
    return this.#watches.size;
  }

  where(kind: string, name: string, namespace = 'hooks'): Where {
    const resource = resources.find((it) => it.kind === kind);
    if (resource === undefined) throw new Error(`no kind ${kind}`);
    return { resource, namespace, name };
  }

  object(kind: string, name: string): Stored | null {
    return this.store.find(this.where(kind, name));
  }

  /** `Kind name` of every object, except events and leases. */
  names(): string[] {
    return resources
      .filter(({ kind }) => kind !== 'Event' && kind !== 'Lease')
      .flatMap((resource) =>
        this.store.list(resource, null).map(({ metadata }) => `${resource.kind} ${metadata.name}`),
      )
      .toSorted();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'http://x');
    try {
      const known = discovery(url.pathname);
      if (known !== null) return send(response, 200, known);
      const asked = parsePath(request.method ?? '', url);
      this.asked.push(asked);
      if (!this.isOpen && request.headers.authorization !== `Bearer ${token}`)
        throw new ApiFailure(401, 'Unauthorized', 'Unauthorized');
      this.#permit(asked);
      const fault = await this.fault(asked);
      if (fault === 'lost before') return void request.socket.destroy();
      if (fault !== null && fault !== 'lost after')
        throw new ApiFailure(fault.status, fault.reason, fault.reason);
      if (asked.verb === 'watch') {
        this.#watches.add(response);
        response.once('close', () => this.#watches.delete(response));
        return serveWatch(this.store, asked, url, response);
      }
      const answer = this.#answer(asked, url, request, await bodyOf(request));
      if (fault === 'lost after') return void request.socket.destroy();
      send(response, asked.method === 'POST' ? 201 : 200, answer);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      const { status: code, reason, message } = error;
      send(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason, code });
    }
  }

  #permit({ verb, resource, name, subresource }: Asked): void {
    const plural = subresource === null ? resource.plural : `${resource.plural}/${subresource}`;
    const isGranted = this.rules?.some(
      (rule) =>
        rule.apiGroups.includes(resource.group) &&
        rule.resources.includes(plural) &&
        rule.verbs.includes(verb) &&
        (rule.resourceNames === undefined || (name !== null && rule.resourceNames.includes(name))),
    );
    if (isGranted === false)
      throw new ApiFailure(403, 'Forbidden', `may not ${verb} ${plural} in "${resource.group}"`);
    this.used.add(`${verb} ${resource.group}/${plural}`);
  }

  #answer(asked: Asked, url: URL, request: IncomingMessage, body: Fields): object {
    const { resource, method, namespace, name, subresource } = asked;
    const manager = url.searchParams.get('fieldManager') ?? 'unknown';
    if (name === null) {
      if (method === 'GET') return this.#list(resource, namespace, url);
      const { metadata } = this.store.create(resource, namespace ?? '', plain(body), manager);
      return this.store.get({ resource, namespace: metadata.namespace, name: metadata.name });
    }
    const where = { resource, namespace: namespace ?? '', name };
    if (method === 'GET') return this.store.get(where);
    if (method === 'DELETE') return this.store.remove(where, body['preconditions'] as object);
    if (method === 'PUT') return this.store.replace(where, body, manager, subresource);
    const type = request.headers['content-type'];
    if (type === 'application/merge-patch+json') return this.store.patch(where, body, manager, subresource);
    if (type !== 'application/apply-patch+yaml') {
      throw new ApiFailure(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - ${type}`,
      );
    }
    if (!url.searchParams.has('fieldManager'))
      throw new ApiFailure(400, 'BadRequest', 'fieldManager is required');
    // An apply that creates an object needs the right to create it.
    if (this.store.find(where) === null) this.#permit({ ...asked, verb: 'create' });
    return this.store.apply(where, plain(body), manager, url.searchParams.get('force') === 'true');
  }

  #list(resource: Resource, namespace: string | null, url: URL): object {
    const all = this.store
      .list(resource, namespace)
      .filter((it) => selects(url.searchParams.get('labelSelector'), it));
    const [version = String(this.store.version), offset = '0'] = (url.searchParams.get('continue') ?? '')
      .split('+')
      .filter(Boolean);
    if (Number(version) < this.store.oldest)
      throw new ApiFailure(410, 'Expired', 'the provided continue parameter is too old');
    const from = Number(offset);
    const to = from + Number(url.searchParams.get('limit') ?? '100000');
    const more = to < all.length ? { continue: `${version}+${to}` } : {};
    return {
      apiVersion: `${resource.group}/${resource.version}`.replace(/^\//, ''),
      kind: `${resource.kind}List`,
      metadata: { resourceVersion: version, ...more },
      items: all.slice(from, to),
    };
  }
}

/** A client's managedFields are ignored. */
function plain(body: Fields): Fields {
  const metadata = { ...(body['metadata'] as Fields) };
  delete metadata['managedFields'];
  // A Secret's stringData is write-only: it is stored in data.
  const { stringData, ...rest } = body;
  if (stringData === undefined) return { ...rest, metadata };
  const entries = Object.entries(stringData as Record<string, string>);
  const data = Object.fromEntries(entries.map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
  return { ...rest, metadata, data };
}

function parsePath(method: string, url: URL): Asked {
  const parts = url.pathname.split('/').slice(1).map(decodeURIComponent);
  const [group, rest] = parts[0] === 'api' ? ['', parts.slice(2)] : [parts[1] ?? '', parts.slice(3)];
  const namespace = rest[0] === 'namespaces' && rest.length > 2 ? (rest[1] ?? null) : null;
  const [plural, name = null, subresource = null] = namespace === null ? rest : rest.slice(2);
  const version = parts[0] === 'api' ? parts[1] : parts[2];
  const resource = resources.find(
    (it) => it.group === group && it.plural === plural && it.version === version,
  );
  if (resource === undefined)
    throw new ApiFailure(404, 'NotFound', 'the server could not find the requested resource');
  const read = name !== null ? 'get' : url.searchParams.get('watch') === 'true' ? 'watch' : 'list';
  const verbs: Record<string, string> = {
    GET: read,
    POST: 'create',
    PUT: 'update',
    PATCH: 'patch',
    DELETE: 'delete',
  };
  return { method, verb: verbs[method] ?? method, resource, namespace, name, subresource };
}

async function bodyOf(request: IncomingMessage): Promise<Fields> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
  return text === '' ? {} : (JSON.parse(text) as Fields);
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
