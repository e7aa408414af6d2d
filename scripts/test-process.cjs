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
