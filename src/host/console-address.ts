/** Where commands of this machine find the console of a running Headgate, and the key that it accepts. Pure. */

/** The file whose content authenticates the commands of this machine; it exists while Headgate runs. */
export const ownerKeyFile = 'console.key';

/** The console's URL for a browser on this machine. */
export function consoleUrl({ host, port }: { readonly host: string; readonly port: number }): string {
  const name = host.includes(':') && host !== '::' ? `[${host}]` : reachable(host);
  return `http://${name}:${port}/console/`;
}

/** The name by which this machine reaches a door that listens there. */
export const reachable = (host: string): string => (host === '0.0.0.0' || host === '::' ? 'localhost' : host);
