// `helm test`: exit status 0 once every pod of the release answers 200 on READY_URL, 1 if that takes more than READY_SECONDS.
import { lookup } from 'node:dns/promises';
import { setTimeout as pause } from 'node:timers/promises';

const { hostname, port, pathname } = new URL(process.env.READY_URL);
const say = (line) => process.stdout.write(`${line}\n`);
const end = Date.now() + Number(process.env.READY_SECONDS) * 1_000;

async function ask(address) {
  const host = address.includes(':') ? `[${address}]` : address;
  const answer = await fetch(`http://${host}:${port}${pathname}`, { signal: AbortSignal.timeout(2_000) });
  return { isReady: answer.status === 200, said: `${answer.status} ${(await answer.text()).trim()}` };
}

async function areAllReady() {
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true });
  let all = found.length > 0;
  for (const { address } of found) {
    const { isReady, said } = await ask(address).catch((error) => ({
      isReady: false,
      said: error.cause?.message ?? error.message,
    }));
    say(`${address}: ${said}`);
    all &&= isReady;
  }
  return all;
}

for (;;) {
  const isReady = await areAllReady().catch((error) => {
    say(error.message);
    return false;
  });
  if (isReady) break;
  if (Date.now() >= end) {
    say('not ready in time');
    process.exitCode = 1;
    break;
  }
  await pause(1_000);
}
