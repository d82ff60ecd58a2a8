/** The shell of `look` in a Web Worker: plumbing, and nothing else. The buffer came by transfer. */

import { look } from "./picture.js";

/** @param {{bytes: ArrayBuffer}} item */
export const handler = ({ bytes }) => look(bytes);
