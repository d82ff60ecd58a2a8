/** Pictures as data URLs: read from a file, made small enough for an item, or drawn for who has none at hand. */

import { element } from "./element.js";

const LONGEST = 2400;

/** @param {File} file @returns {Promise<string>} */
export function readAsUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/**
 * A JPEG of the picture of at most so many characters: photographs straight from a camera are larger than an item.
 *
 * @param {File} file
 * @param {number} limit
 */
export async function shrink(file, limit) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is too large for an item, and no picture that could be made smaller.`);
  });
  for (let longest = LONGEST; ; longest *= 0.8) {
    const scale = Math.min(1, longest / Math.max(bitmap.width, bitmap.height));
    const { context, canvas } = canvasOf(Math.ceil(bitmap.width * scale), Math.ceil(bitmap.height * scale));
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const url = canvas.toDataURL("image/jpeg", 0.85);
    if (url.length <= limit) return url;
  }
}

/** A few discs on a sky, different each time. */
export function drawSample() {
  const { context, canvas } = canvasOf(1200, 750);
  const sky = context.createLinearGradient(0, 0, 0, canvas.height);
  const hue = Math.random() * 360;
  sky.addColorStop(0, `hsl(${hue} 60% 25%)`);
  sky.addColorStop(1, `hsl(${hue + 40} 80% 75%)`);
  context.fillStyle = sky;
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (let disc = 0; disc < 16; disc += 1) {
    context.fillStyle = `hsl(${hue + 120 + Math.random() * 120} 70% 60% / 80%)`;
    context.beginPath();
    context.arc(Math.random() * canvas.width, Math.random() * canvas.height, 20 + Math.random() * 90, 0, Math.PI * 2);
    context.fill();
  }
  return canvas.toDataURL("image/jpeg", 0.9);
}

/** @param {number} width @param {number} height */
function canvasOf(width, height) {
  const canvas = element("canvas", { width, height });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  return { context, canvas };
}
