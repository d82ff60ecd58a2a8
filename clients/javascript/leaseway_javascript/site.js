/** A server as a whole: which queues it has. One queue is `client.js`'s. */

import { Door } from "./door.js";
import { outsideOf } from "./outside.js";

/**
 * The queues of a server on which one has any right, with these rights (PROTOCOL.md §5).
 *
 *     for (const { queue, rights } of await listQueues("https://task.example.com", { token })) …
 *
 * Rejects with `ConnectionLost` and `Unauthorized`.
 *
 * @param {string | URL} site  `https://host`, or the same with `http`, `wss` or `ws`; in a page also `/`
 * @param {import("./client.js").SiteOptions} [options]
 * @returns {Promise<{queue: string, rights: string[]}[]>}
 */
export async function listQueues(site, options = {}) {
  const url = new URL(site, globalThis.location?.href);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/any`; // A door is one queue's; this one is not looked at.
  const told = await new Door(url, options, outsideOf(options)).ask("GET", "/_queues");
  return told.queues;
}
