/**
 * Files of the program that it finds by its own place, which is a folder of dist/src: that of a room, or where the bundled program is
 * (scripts/build-program.mjs). Part of the composition root.
 */
import { fileURLToPath } from 'node:url';

/** What a listener process runs. */
export const listenerEntry = fileURLToPath(new URL('../app/listeners/entry.js', import.meta.url));
/** The console's page. */
export const pageFolder = fileURLToPath(new URL('../../console', import.meta.url));
