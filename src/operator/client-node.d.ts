/**
 * The Kubernetes client as far as the operator uses it. Its users install it, and here `npm run packages` does, so its own types may be
 * absent.
 */
declare module '@kubernetes/client-node' {
  import type { RequestOptions } from 'node:https';

  export class KubeConfig {
    loadFromDefault(): void;
    loadFromFile(path: string): void;
    loadFromString(text: string): void;
    loadFromClusterAndUser(
      cluster: { readonly name: string; readonly server: string; readonly skipTLSVerify?: boolean },
      user: { readonly name: string; readonly token: string },
    ): void;
    getCurrentContext(): string;
    getContextObject(name: string): { readonly namespace?: string } | null;
    getCurrentCluster(): {
      readonly name: string;
      readonly server: string;
      readonly skipTLSVerify?: boolean;
    } | null;
    /** Adds the credentials; may run a program or ask a server for them. */
    applyToHTTPSOptions(options: RequestOptions): Promise<void>;
  }
}
