import assert from "node:assert/strict";
import { test } from "node:test";

import { analyse } from "../../server/leaseway_server/web/pages/showcase/palette.js";

/** A picture of runs of pixels: `[how many, red, green, blue, alpha]`. */
function picture(...runs) {
  return Uint8ClampedArray.from(runs.flatMap(([count, ...rgba]) => Array.from({ length: count }, () => rgba).flat()));
}

const red = [255, 0, 0, 255];
const blue = [0, 0, 255, 255];

test("one colour is all of it", () => {
  assert.deepEqual(analyse(picture([50, ...red])), { colours: [{ colour: "#ff0000", share: 1 }], luminance: 0.2126 });
});

test("the most frequent colour comes first, with its share", () => {
  const { colours } = analyse(picture([25, ...red], [75, ...blue]));
  assert.deepEqual(colours, [{ colour: "#0000ff", share: 0.75 }, { colour: "#ff0000", share: 0.25 }]);
});

test("shades that are near are one colour: their mean", () => {
  const { colours } = analyse(picture([10, 100, 100, 100, 255], [10, 104, 100, 100, 255], [5, ...blue]));
  assert.deepEqual(colours.map(({ colour }) => colour), ["#666464", "#0000ff"]);
});

test("there are at most so many, and their shares make a whole", () => {
  const mixed = (_, at) => (at % 4 === 3 ? 255 : (at * 2_654_435_761) >>> 24);
  const rgba = Uint8ClampedArray.from({ length: 4 * 5_000 }, mixed);
  for (const count of [1, 3, 8]) {
    const { colours } = analyse(rgba, count);
    assert.equal(colours.length, count);
    assert.ok(colours.every(({ colour }) => /^#[0-9a-f]{6}$/.test(colour)));
    assert.ok(colours.every(({ share }, at) => at === 0 || share <= colours[at - 1].share));
    assert.ok(Math.abs(colours.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9);
  }
  assert.deepEqual(analyse(rgba), analyse(rgba));
});

test("where the pixels stand is nothing to it", () => {
  const one = analyse(picture([30, ...red], [20, ...blue], [10, 9, 200, 30, 255]));
  assert.deepEqual(analyse(picture([10, 9, 200, 30, 255], [20, ...blue], [30, ...red])), one);
});

test("luminance is that of light, not of bytes", () => {
  assert.equal(analyse(picture([1, 0, 0, 0, 255])).luminance, 0);
  assert.equal(analyse(picture([1, 255, 255, 255, 255])).luminance, 1);
  assert.equal(analyse(picture([1, 128, 128, 128, 255])).luminance, 0.2159);
  assert.equal(analyse(picture([1, 0, 0, 0, 255], [1, 255, 255, 255, 255])).luminance, 0.5);
});

test("what is transparent lies on white", () => {
  assert.deepEqual(analyse(picture([4, 0, 0, 0, 0])), { colours: [{ colour: "#ffffff", share: 1 }], luminance: 1 });
  assert.equal(analyse(picture([4, 255, 0, 0, 127])).colours[0].colour, "#ff8080");
});

test("what is no picture is refused", () => {
  for (const length of [0, 1, 7]) assert.throws(() => analyse(new Uint8Array(length)), RangeError);
});
