/** Pictures for who has none at hand: discs on a sky, different each time. */

const SIZE = [2400, 1600];

/** @param {number} count @returns {Promise<File[]>} */
export function drawSamples(count) {
  return Promise.all(Array.from({ length: count }, (_, at) => drawSample(`sample ${at + 1}.jpg`)));
}

/** @param {string} name */
async function drawSample(name) {
  const canvas = new OffscreenCanvas(SIZE[0], SIZE[1]);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const hue = Math.random() * 360;
  drawSky(context, hue);
  for (let disc = 0; disc < 24; disc += 1) drawDisc(context, hue + 120 + Math.random() * 120);
  return new File([await canvas.convertToBlob({ type: "image/jpeg", quality: 0.8 })], name, { type: "image/jpeg" });
}

/** @param {OffscreenCanvasRenderingContext2D} context @param {number} hue */
function drawSky(context, hue) {
  const sky = context.createLinearGradient(0, 0, 0, SIZE[1]);
  sky.addColorStop(0, `hsl(${hue} 60% 25%)`);
  sky.addColorStop(1, `hsl(${hue + 40} 80% 75%)`);
  context.fillStyle = sky;
  context.fillRect(0, 0, SIZE[0], SIZE[1]);
}

/** @param {OffscreenCanvasRenderingContext2D} context @param {number} hue */
function drawDisc(context, hue) {
  context.fillStyle = `hsl(${hue} 70% ${40 + Math.random() * 40}% / 80%)`;
  context.beginPath();
  context.arc(Math.random() * SIZE[0], Math.random() * SIZE[1], 50 + Math.random() * 200, 0, Math.PI * 2);
  context.fill();
}
