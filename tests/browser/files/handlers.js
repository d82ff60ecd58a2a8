/** Handlers that do what handlers may do to a Web Worker. What is to be done is in the item. */

import { Permanent, Release } from "/client/errors.js";

let resolveLate = () => {};

const DO = {
  // The sum of the bytes, and the same buffer back.
  sum: ({ pixels }) => ({ sum: new Uint8Array(pixels).reduce((sum, byte) => sum + byte, 0), pixels }),
  view: ({ pixels }) => ({ nested: [{ view: new Uint8Array(pixels.buffer, 1, 2) }] }),
  busy: ({ ms }) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
    return "done";
  },
  crash: () => {
    setTimeout(() => {
      throw new Error("boom");
    });
    return new Promise(() => {});
  },
  stray: () => {
    setTimeout(() => {
      throw new Error("left behind");
    });
    return "done";
  },
  many: () => ({ numbers: Array.from({ length: 300_000 }, (_, n) => n), pixels: new ArrayBuffer(5) }),
  hang: () => {
    for (;;);
  },
  close: () => {
    self.close();
    return new Promise(() => {});
  },
  patient: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve("after all"), ms)),
  permanent: () => {
    throw new Permanent("never", { code: "never", detail: { at: 1 } });
  },
  release: () => {
    throw new Release(5);
  },
  fault: () => {
    throw new RangeError("too far");
  },
  nothing: () => undefined,
  noise: async () => {
    self.onmessage = () => {}; // What a library may do that was written for a Web Worker of its own.
    for (const noise of [null, undefined, 7, "ended", [], { progress: 50 }, { ended: "by noise" }, { thrown: null }])
      self.postMessage(noise);
    return await new Promise((resolve) => setTimeout(() => resolve("heard"), 20));
  },
  // Progress that comes when its attempt has ended and another one runs here.
  leftover: (_, job) => {
    const late = () => job.progress("left behind").then(resolveLate, (error) => resolveLate(error.name));
    self.addEventListener("late", late, { once: true });
    return "done";
  },
  after: async (_, job) => {
    const told = new Promise((resolve) => (resolveLate = resolve));
    self.dispatchEvent(new Event("late"));
    await job.progress("own");
    return await told;
  },
  untellable: () => {
    throw new Permanent("never", { detail: () => {} });
  },
  nameless: () => {
    throw Object.assign(new Error("odd"), { name: Symbol("odd") });
  },
  unreadable: () => {
    throw {
      get message() {
        throw new Error("no");
      },
    };
  },
  detached: ({ pixels }) => ({ pixels: (structuredClone(pixels, { transfer: [pixels] }), pixels) }),
  names: ({ value }) => Object.entries(value),
  uncloneable: () => () => {},
  facts: ({ id: _, ...item }, job) => ({
    item,
    id: job.id,
    attempts: job.attempts,
    checkpoint: job.checkpoint,
    meta: job.meta,
  }),
  progress: async (_, job) => {
    await job.progress({ percent: 50 });
    return await job.progress("refused").catch((error) => error.name);
  },
};

export function handler(item, job) {
  // An attempt after the first one does well.
  return item.once && job.attempts > 1 ? `attempt ${job.attempts}` : DO[item.do](item, job);
}
