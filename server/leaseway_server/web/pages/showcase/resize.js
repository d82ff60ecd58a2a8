/**
 * The handler of the queue `resize`, to be run in a Web Worker: an item in, its progress told, a result out.
 *
 * The shapes of both are the queue's schema. Only the order of the steps lives here.
 */

import { Permanent } from "/_client/errors.js";

import { analyse } from "./palette.js";
import { BadPicture, decode, draw, encode, fromDataUrl, pixels, toDataUrl } from "./picture.js";

/**
 * @param {{image: string, width: number, format: "jpg" | "png" | "webp"}} item
 * @param {{progress: (value: {percent: number, stage: string}) => Promise<void>}} job
 */
export async function handler(item, job) {
  try {
    return await resized(item, (percent, stage) => job.progress({ percent, stage }));
  } catch (error) {
    if (error instanceof BadPicture) throw new Permanent(error.message, { code: "bad-picture" });
    throw error;
  }
}

/** @param {Parameters<typeof handler>[0]} item @param {(percent: number, stage: string) => Promise<void>} tell */
async function resized(item, tell) {
  await tell(5, "decode");
  const bitmap = await decode(fromDataUrl(item.image));
  await tell(30, "resize");
  const canvas = draw(bitmap, item.width);
  await tell(55, "palette");
  const { colours, luminance } = analyse(pixels(canvas));
  await tell(85, "encode");
  const image = await toDataUrl(await encode(canvas, item.format));
  const { width, height } = canvas;
  return { image, width, height, palette: colours.map(({ colour }) => colour), luminance };
}
