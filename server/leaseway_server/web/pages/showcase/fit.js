/** A file as the data URL of an item: as it is where that fits, else made smaller, as photographs from a camera are. */

import { decode, draw, encode, toDataUrl } from "./picture.js";

/** What the queue's schema allows. */
const ALLOWED = new Set(["image/jpeg", "image/png", "image/webp"]);
/** So wide the first try is, and so much less each one after it. */
const WIDEST = 2400;
const LESS = 0.75;

/**
 * Throws `BadPicture` where it must be made smaller and is no picture.
 *
 * @param {File} file
 * @param {number} most  characters
 */
export async function fit(file, most) {
  if (ALLOWED.has(file.type) && lengthOf(file) <= most) return toDataUrl(file);
  for (let widest = WIDEST; ; widest *= LESS) {
    const bitmap = await decode(file);
    const smaller = await encode(draw(bitmap, Math.min(bitmap.width, widest)), "jpg");
    if (lengthOf(smaller) <= most) return toDataUrl(smaller);
  }
}

/** As a data URL. @param {Blob} blob */
function lengthOf(blob) {
  return `data:${blob.type};base64,`.length + Math.ceil(blob.size / 3) * 4;
}
