/** The discovery requests of kubectl and helm to an API server. */
import { resources } from './resources.ts';

const verbs = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'];

/** The answer to a discovery path; null for every other path. */
export function discovery(path: string): object | null {
  if (path === '/version') return { major: '1', minor: '31', gitVersion: 'v1.31.0', platform: 'linux/amd64' };
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] };
  const groups = [...new Set(resources.map((it) => it.group))].filter((group) => group !== '');
  if (path === '/apis') {
    const list = groups.map((name) => {
      const version = resources.find((it) => it.group === name)?.version ?? '';
      const preferredVersion = { groupVersion: `${name}/${version}`, version };
      return { name, versions: [preferredVersion], preferredVersion };
    });
    return { kind: 'APIGroupList', apiVersion: 'v1', groups: list };
  }
  const groupVersion = path === '/api/v1' ? 'v1' : /^\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1];
  if (groupVersion === undefined) return null;
  const found = resources.filter((it) => `${it.group}/${it.version}`.replace(/^\//, '') === groupVersion);
  if (found.length === 0) return null;
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion,
    resources: found.map(({ plural, kind }) => ({
      name: plural,
      singularName: kind.toLowerCase(),
      namespaced: true,
      kind,
      verbs,
    })),
  };
}
