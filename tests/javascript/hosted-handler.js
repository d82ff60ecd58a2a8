/** What `hosted.js` has done in a Web Worker. */

import { Permanent } from "../../clients/javascript/leaseway_javascript/errors.js";

const DO = {
  sum: async ({ pixels }, job) => {
    await job.progress({ percent: 50 });
    return { sum: new Uint8Array(pixels).reduce((sum, byte) => sum + byte, 0), pixels };
  },
  refuse: () => {
    throw new Permanent("never");
  },
  crash: () => {
    setTimeout(() => {
      throw new Error("boom");
    });
    return new Promise(() => {});
  },
  hang: () => {
    for (;;);
  },
  wait: () => new Promise(() => {}),
};

export const handler = (item, job) => DO[item.do](item, job);
