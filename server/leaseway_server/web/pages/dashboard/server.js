/** The server as a whole: where it is, and which queues one may see there. One queue is the client's business. */

import { listQueues } from "../../_client/site.js";
import { hearTime } from "./server-clock.js";

const ROOT = new URL("../../", import.meta.url);

/** The address of a queue. */
export function addressOf(queue) {
  return new URL(queue, ROOT);
}

/** How one comes in, as the client takes it; each answer tells the server's time. An empty token is none. */
export function entry(token) {
  return { ...(token && { token }), fetch: timed };
}

/** The queues that one has any right on: `[{queue, rights}]`. Throws as the client does. */
export function queuesFor(token) {
  return listQueues(ROOT, entry(token));
}

async function timed(request, init) {
  const response = await fetch(request, init);
  hearTime(response);
  return response;
}
