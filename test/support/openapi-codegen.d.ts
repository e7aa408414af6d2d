/** The generator of clients as far as a test uses it: `npm run packages` installs it, so its own types may be absent. */
declare module 'openapi-typescript-codegen' {
  export enum HttpClient {
    FETCH = 'fetch',
  }
  export function generate(options: {
    readonly input: Record<string, unknown>;
    readonly output: string;
    readonly httpClient: HttpClient;
  }): Promise<void>;
}
