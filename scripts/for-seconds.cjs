// Loaded first by the processes that tests start: what lives for seconds is not worth the optimising of the parser's WebAssembly. V8 takes what was compiled
// before, of Node's own modules and of the program, only while its flags are as they were, so that they are set when the parser is loaded.
const { instantiate } = WebAssembly;
WebAssembly.instantiate = (...of) => {
  WebAssembly.instantiate = instantiate;
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering'])
    require('node:v8').setFlagsFromString(flag);
  return instantiate(...of);
};
