// Loaded first by the processes that tests start. A process that lives for seconds does not earn back what V8 spends on optimising its code, the
// parser's WebAssembly first of all. V8 accepts code that it has compiled before, of Node's own modules and of the program, only while its flags are
// as they were then, so they are set when the parser is loaded. (`--interrupt-budget`: bytes of bytecode that a function runs before it is optimised,
// 3.7 times the default.)
const flags = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering', '--interrupt-budget=500000'];
const { instantiate } = WebAssembly;
WebAssembly.instantiate = (...of) => {
  WebAssembly.instantiate = instantiate;
  for (const flag of flags) require('node:v8').setFlagsFromString(flag);
  return instantiate(...of);
};

// To measure how late its timers are, a process wakes a hundred times a second, which is most of what a Headgate costs that waits.
const hooks = require('node:perf_hooks');
const { monitorEventLoopDelay } = hooks;
hooks.monitorEventLoopDelay = () => monitorEventLoopDelay({ resolution: 1_000 });
