// Loaded first by the processes of the suite's files. node:test follows every promise and socket, from its beginning to its end, to know whose test an error
// belongs to that nobody has caught: a tenth of what such a process computes. Here it learns of tests alone. Such an error still fails the
// file, and where the file runs again, alone, without this, the test.
const hooks = require('node:async_hooks');

const { createHook } = hooks;
hooks.createHook = ({ init }) => {
  hooks.createHook = createHook;
  return createHook({
    init: (...of) => {
      if (of[1] === 'Test') init(...of);
    },
  });
};
for (const name of ['node:test', './for-seconds.cjs']) require(name);
