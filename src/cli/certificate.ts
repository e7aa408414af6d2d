/** How long the certificate of an https URL remains valid, regardless of who signed it. */
import { isIP } from 'node:net';
import type { connect } from 'node:tls';
import { limits } from '../config/limits.ts';
import { hostOf } from '../kit/address.ts';

/** In days; null: the server presented none. Sends only the TLS handshake. */
export function certificateDays(url: URL, connectTls: typeof connect): Promise<number | null> {
  const host = hostOf(url);
  return new Promise((resolve) => {
    const socket = connectTls({
      host,
      port: Number(url.port === '' ? 443 : url.port),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      // The certificate is read, not trusted.
      rejectUnauthorized: false,
      timeout: limits.doctorAnswerMs,
    });
    const end = (days: number | null): void => {
      socket.destroy();
      resolve(days);
    };
    socket.once('secureConnect', () => {
      const { valid_to: until } = socket.getPeerCertificate();
      end(until === undefined ? null : (Date.parse(until) - Date.now()) / 86_400_000);
    });
    socket.once('timeout', () => end(null));
    socket.once('error', () => end(null));
  });
}
