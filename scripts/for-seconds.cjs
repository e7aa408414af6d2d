// Loaded first by the processes that tests start: what lives for seconds is not worth the optimising of the parser's WebAssembly. V8 takes what Node has
// compiled of its own modules only while its flags are as they were, so that those that everybody needs are loaded before.
const modules = ['assert', 'child_process', 'cluster', 'dns/promises', 'fs/promises', 'https', 'perf_hooks'];
modules.push('stream/consumers', 'timers/promises', 'tls', 'url', 'v8', 'worker_threads', 'zlib');
for (const name of modules) require(`node:${name}`);
for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering'])
  require('node:v8').setFlagsFromString(flag);
