/**
 * What is seen in a picture: its main colours, and how light it is. Pure: bytes in, values out, everywhere the same.
 *
 * Nothing of files, canvases, threads or queues may live here.
 *
 * Colours are found by k-means on the sRGB bytes of every pixel, from seeds that follow from the picture alone: no
 * chance, and whole numbers only. The luminance is the relative luminance of Rec. 709 (ITU-R BT.709): its weights on
 * linear light, sRGB's transfer function taken back (IEC 61966-2-1); 0 is black, 1 is white. What is transparent lies
 * on white.
 */

/** @typedef {{colour: string, share: number}} Colour  `#rrggbb`, and the part of the pixels, over 0 and up to 1 */

/** @typedef {{colours: Colour[], luminance: number}} Seen  the most frequent colour first */

const REC_709 = [0.2126, 0.7152, 0.0722];
const LINEAR = Float64Array.from({ length: 256 }, (_, value) => linear(value / 255));
/** A seed is at least so far from the seeds before it, as the squared distance of their bytes. */
const APART = 48 ** 2;
const MAX_ROUNDS = 12;

/**
 * The main colours and the luminance. Throws a `RangeError` for what is no picture's bytes.
 *
 * @param {Uint8Array | Uint8ClampedArray} rgba  four bytes a pixel, alpha not multiplied in
 * @param {number} [count]  of colours at most
 * @returns {Seen}
 */
export function analyse(rgba, count = 6) {
  if (rgba.length === 0 || rgba.length % 4) throw new RangeError("a picture has four bytes a pixel, and a pixel");
  const rgb = onWhite(rgba);
  return { colours: mainColours(rgb, count), luminance: luminance(rgb) };
}

/** @param {Uint8Array | Uint8ClampedArray} rgba */
function onWhite(rgba) {
  const rgb = new Uint8Array((rgba.length / 4) * 3);
  for (let from = 0, to = 0; from < rgba.length; from += 4) {
    const alpha = rgba[from + 3];
    const white = 255 * (255 - alpha);
    for (let at = from; at < from + 3; at += 1) rgb[to++] = Math.round((rgba[at] * alpha + white) / 255);
  }
  return rgb;
}

/** @param {Uint8Array} rgb @param {number} count @returns {Colour[]} */
function mainColours(rgb, count) {
  let centres = seeds(rgb, count);
  let groups = grouped(rgb, centres);
  for (let round = 1; round < MAX_ROUNDS; round += 1) {
    const moved = groups.flatMap((group) => group.mean);
    if (moved.every((value, at) => value === centres[at])) break;
    centres = moved;
    groups = grouped(rgb, centres);
  }
  const pixels = rgb.length / 3;
  groups.sort((one, other) => other.pixels - one.pixels);
  return groups.map((group) => ({ colour: hex(group.mean), share: group.pixels / pixels }));
}

/**
 * Where the search begins: the most frequent colours of a coarse raster, each apart from those before it.
 *
 * @param {Uint8Array} rgb
 * @param {number} count
 */
function seeds(rgb, count) {
  const raster = new Uint32Array(4096);
  for (let at = 0; at < rgb.length; at += 3) {
    raster[((rgb[at] >> 4) << 8) | ((rgb[at + 1] >> 4) << 4) | (rgb[at + 2] >> 4)] += 1;
  }
  const cells = [...raster.keys()].filter((cell) => raster[cell]).sort((one, other) => raster[other] - raster[one]);
  /** @type {number[][]} */
  const found = [];
  for (const cell of cells) {
    const middle = [cell >> 8, (cell >> 4) & 15, cell & 15].map((value) => value * 16 + 8);
    if (found.every((seed) => distance(seed, middle) >= APART)) found.push(middle);
    if (found.length === count) break;
  }
  return found.flat();
}

/**
 * Each pixel with the centre that is nearest to it: groups that are not empty, and their means.
 *
 * @param {Uint8Array} rgb
 * @param {number[]} centres  three numbers each
 */
function grouped(rgb, centres) {
  const sums = new Float64Array((centres.length / 3) * 4);
  for (let at = 0; at < rgb.length; at += 3) {
    const red = rgb[at];
    const green = rgb[at + 1];
    const blue = rgb[at + 2];
    let nearest = 0;
    let least = Infinity;
    for (let centre = 0; centre < centres.length; centre += 3) {
      const far = (red - centres[centre]) ** 2 + (green - centres[centre + 1]) ** 2 + (blue - centres[centre + 2]) ** 2;
      if (far < least) {
        least = far;
        nearest = centre;
      }
    }
    const sum = (nearest / 3) * 4;
    sums[sum] += red;
    sums[sum + 1] += green;
    sums[sum + 2] += blue;
    sums[sum + 3] += 1;
  }
  return meansOf(sums);
}

/** @param {Float64Array} sums  red, green, blue and pixels of each group */
function meansOf(sums) {
  const groups = [];
  for (let at = 0; at < sums.length; at += 4) {
    const pixels = sums[at + 3];
    if (pixels) groups.push({ pixels, mean: [...sums.subarray(at, at + 3)].map((sum) => Math.round(sum / pixels)) });
  }
  return groups;
}

/** @param {Uint8Array} rgb */
function luminance(rgb) {
  let sum = 0;
  for (let at = 0; at < rgb.length; at += 3) {
    sum += REC_709[0] * LINEAR[rgb[at]] + REC_709[1] * LINEAR[rgb[at + 1]] + REC_709[2] * LINEAR[rgb[at + 2]];
  }
  return Math.min(1, Math.round((sum / (rgb.length / 3)) * 10_000) / 10_000);
}

/** @param {number} value  of sRGB, from 0 to 1 */
function linear(value) {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

/** @param {number[]} one @param {number[]} other */
function distance(one, other) {
  return one.reduce((sum, value, at) => sum + (value - other[at]) ** 2, 0);
}

/** @param {number[]} rgb */
function hex(rgb) {
  return `#${rgb.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
