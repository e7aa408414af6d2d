// Loaded first by the processes that run test files. node:test tracks every promise and socket from beginning to end, to know which test an uncaught
// error belongs to: a tenth of such a process's CPU time. Here it tracks only tests. Such an error still fails the file, and, when the file is run
// again alone without this, the test.
const hooks = require('node:async_hooks');

const createHook = hooks.createHook.bind(hooks);
hooks.createHook = (callbacks) => {
  hooks.createHook = createHook;
  return createHook({
    init: (...of) => {
      if (of[1] === 'Test') callbacks.init(...of);
    },
  });
};
for (const name of ['node:test', './for-seconds.cjs']) require(name);

// An RSA key takes a fifth of a second to find, and the tests of the senders ask for hundreds. The processes of a run make a few, keep them in its
// folder, and hand them out in turn, so that no two in a row are the same. A file that is run again alone has as many as it asks for.
const crypto = require('node:crypto');
const { readFileSync, renameSync, writeFileSync } = require('node:fs');
const { HEADGATE_TEST_KEYS: kept } = process.env;
const { generateKeyPairSync } = crypto;
const rsaPairsMax = 7;
const rsaPairs = [];
let asked = 0;
const keptPair = (place, options) => {
  const file = `${kept}-${place}`;
  try {
    const privateKey = crypto.createPrivateKey(readFileSync(file));
    return { privateKey, publicKey: crypto.createPublicKey(privateKey) };
  } catch {
    const pair = generateKeyPairSync('rsa', options);
    writeFileSync(`${file}-${process.pid}`, pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    renameSync(`${file}-${process.pid}`, file);
    return pair;
  }
};
if (kept !== undefined) {
  crypto.generateKeyPairSync = (type, options, ...rest) => {
    const isPlain = type === 'rsa' && JSON.stringify(options) === '{"modulusLength":2048}';
    if (!isPlain) return generateKeyPairSync(type, options, ...rest);
    const place = asked++ % rsaPairsMax;
    return (rsaPairs[place] ??= keptPair(place, options));
  };
  require('node:module').syncBuiltinESMExports();
}
