// Loaded first by the processes that tests start: for a process that lives for seconds, optimising the parser's WebAssembly does not pay off. V8
// accepts compiled code of Node's own modules and of the program only while its flags are unchanged, so they are set only when the parser is loaded.
const { instantiate } = WebAssembly;
WebAssembly.instantiate = (...of) => {
  WebAssembly.instantiate = instantiate;
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering'])
    require('node:v8').setFlagsFromString(flag);
  return instantiate(...of);
};
