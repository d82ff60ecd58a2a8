/** The whole of the client, for who imports it as one. */

export * from "./errors.js";
export { Job, Queue } from "./client.js";
export { listQueues } from "./site.js";
export { hostInWebWorker } from "./web-worker.js";
export { Attempt, Worker } from "./worker.js";
