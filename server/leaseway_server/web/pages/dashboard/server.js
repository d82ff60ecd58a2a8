/** The server as a whole: where it is, and which queues one may see there. One queue is the client's business. */

import { ConnectionLost, Unauthorized } from "../../_client/errors.js";
import { hearTime } from "./server-clock.js";

const ROOT = new URL("../../", import.meta.url);

/** The address of a queue. */
export function addressOf(queue) {
  return new URL(queue, ROOT);
}

/**
 * The queues that one has any right on: `[{queue, rights}]`. Throws `Unauthorized` for a token that is not valid, and
 * `ConnectionLost`.
 */
export async function listQueues(token) {
  const response = await answered(token);
  if (response.status === 401) throw new Unauthorized("This token is not valid, or not any more.");
  const answer = await response.json().catch(() => ({}));
  if (!response.ok || !answer.queues) throw new ConnectionLost(answer.detail ?? `The server answers with ${response.status}.`);
  hearTime(response);
  return answer.queues;
}

async function answered(token) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  try {
    return await fetch(new URL("_queues", ROOT), { headers, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch {
    throw new ConnectionLost("The server cannot be reached. Is it running?");
  }
}
