/** The server as a whole: where it is, and which queues one may see there. One queue is the client's business. */

import { listQueues } from "../../_client/site.js";
import { hearTime } from "./server-clock.js";

const ROOT = new URL("../../", import.meta.url);

/** The address of a queue. @param {string} queue */
export function addressOf(queue) {
  return new URL(queue, ROOT);
}

/**
 * How one comes in, as the client takes it; each answer tells the server's time.
 *
 * @param {string} token  an empty one is none
 */
export function entry(token) {
  return { ...(token && { token }), fetch: timed };
}

/** The queues that one has any right on, with these. Throws as the client does. @param {string} token */
export function queuesFor(token) {
  return listQueues(ROOT, entry(token));
}

/** @type {typeof fetch} */
async function timed(request, init) {
  const response = await fetch(request, init);
  hearTime(response);
  return response;
}
