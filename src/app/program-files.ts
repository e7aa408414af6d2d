/**
 * Files of the program, found relative to this module, which lies in a folder of dist/src: that of a room, or that of the bundled
 * program (scripts/build-program.mjs). Part of the composition root.
 */
import { fileURLToPath } from 'node:url';

/** The script that a listener process runs. */
export const listenerEntry = fileURLToPath(new URL('../app/listeners/entry.js', import.meta.url));
/** The console's page. */
export const pageFolder = fileURLToPath(new URL('../../console', import.meta.url));
