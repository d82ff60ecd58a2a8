/**
 * Pictures in a browser: bytes to a bitmap, to pixels, to bytes again; alike on a page's thread and in a Web Worker.
 *
 * Nothing of the page, of threads or of queues may live here; what is seen in the pixels is `palette.js`'s.
 */

import { analyse } from "./palette.js";

/** A picture is looked at with at most so many pixels on its longer side. */
export const LOOKED_AT = 1600;
/** More pixels take too much memory: a small file can claim to have any number of them. */
const MAX_PIXELS = 32_000_000;
/** The formats of the queue's schema. */
const MEDIA = { jpg: "image/jpeg", png: "image/png", webp: "image/webp" };
const QUALITY = 0.85;

/** These bytes are no picture that this browser can read, or it would be too large. */
export class BadPicture extends Error {}

/**
 * What is seen in a picture: the whole work, on whichever thread it is called. Throws `BadPicture`.
 *
 * @param {ArrayBuffer} bytes  of a file in any format that the browser reads
 * @returns {Promise<import("./palette.js").Seen & {width: number, height: number}>}
 */
export async function look(bytes) {
  const bitmap = await decode(new Blob([bytes]));
  const { width, height } = bitmap;
  const canvas = draw(bitmap, Math.min(1, LOOKED_AT / Math.max(width, height)) * width);
  return { width, height, ...analyse(pixels(canvas)) };
}

/** The upright picture. Throws `BadPicture`. @param {Blob} blob @returns {Promise<ImageBitmap>} */
export async function decode(blob) {
  const bitmap = await createImageBitmap(blob).catch(() => {
    throw new BadPicture("it has no pixels that can be read: it is damaged, empty, or no PNG, JPEG, WebP or GIF");
  });
  try {
    checkSize(bitmap.width, bitmap.height);
  } catch (error) {
    bitmap.close(); // Its memory, which is much, is given back now and not some time.
    throw error;
  }
  return bitmap;
}

/**
 * The picture with that width, on a canvas; the height keeps the ratio. The bitmap is used up. Throws `BadPicture`.
 *
 * @param {ImageBitmap} bitmap
 * @param {number} wanted  pixels
 */
export function draw(bitmap, wanted) {
  const width = Math.max(1, Math.round(wanted));
  const height = Math.max(1, Math.round((bitmap.height * wanted) / bitmap.width));
  checkSize(width, height);
  const canvas = new OffscreenCanvas(width, height);
  const context = contextOf(canvas);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return canvas;
}

/** Four bytes a pixel. @param {OffscreenCanvas} canvas */
export function pixels(canvas) {
  return contextOf(canvas).getImageData(0, 0, canvas.width, canvas.height).data;
}

/**
 * As a file; what is transparent lies on white in a JPEG.
 *
 * @param {OffscreenCanvas} canvas
 * @param {keyof typeof MEDIA} format
 */
export function encode(canvas, format) {
  if (format === "jpg") {
    const context = contextOf(canvas);
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  return canvas.convertToBlob({ type: MEDIA[format], quality: QUALITY });
}

/** @param {Blob} blob @returns {Promise<string>} */
export function toDataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(new BadPicture("the file cannot be read (any more)"));
    reader.readAsDataURL(blob);
  });
}

/** Of base64. Throws `BadPicture`. @param {string} url */
export function fromDataUrl(url) {
  let text;
  try {
    text = atob(url.slice(url.indexOf(",") + 1));
  } catch {
    throw new BadPicture("the data URL is not base64");
  }
  return new Blob([Uint8Array.from(text, (character) => character.charCodeAt(0))]);
}

/** Read often, so it lies in memory and not on a graphics card. @param {OffscreenCanvas} canvas */
function contextOf(canvas) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return /** @type {OffscreenCanvasRenderingContext2D} */ (context);
}

/** @param {number} width @param {number} height */
function checkSize(width, height) {
  if (width * height <= MAX_PIXELS) return;
  throw new BadPicture(`${width} × ${height} pixels are too many: ${MAX_PIXELS / 1e6} million are allowed`);
}
