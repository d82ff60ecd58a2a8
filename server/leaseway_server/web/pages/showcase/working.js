/** This tab as a worker of the queue: pictures are resized in Web Workers, and the page stays out of it. */

import { Worker, hostInWebWorker } from "/_client/index.js";

/** So many pictures at once. */
const CONCURRENCY = 2;
/** Milliseconds that pictures which are begun have to end when the person stops it. */
const GRACE_MS = 3_000;

export class Working {
  #worker;
  #handler = hostInWebWorker(new URL("./resize.js", import.meta.url));
  #running = 0;
  #done = 0;
  #tell;
  /** Resolves when it has stopped; rejects where the queue does not let this tab work. @type {Promise<void>} */
  stopped;

  /**
   * Works from now on.
   *
   * @param {string} url
   * @param {{token?: string}} credentials
   * @param {(text: string) => void} tell  what the tab does, for people
   */
  constructor(url, credentials, tell) {
    this.#tell = tell;
    const options = { name: "showcase", concurrency: CONCURRENCY, handler: this.#handler };
    this.#worker = new Worker(url, { ...credentials, ...options });
    this.stopped = this.#worker.stopped.finally(() => this.#handler.close());
    this.#on("online", () => this.#say());
    this.#on("offline", () => tell("No connection for now. It comes back by itself."));
    this.#on("start", () => this.#count(1, 0));
    this.#on("end", ({ verb }) => this.#count(-1, verb === "result" ? 1 : 0));
  }

  /** What is begun may end, or goes back to the queue. */
  stop() {
    return this.#worker.stop({ graceMs: GRACE_MS });
  }

  /** @param {string} kind @param {(event: any) => void} act */
  #on(kind, act) {
    this.#worker.addEventListener(kind, act);
  }

  /** @param {number} running @param {number} done */
  #count(running, done) {
    this.#running += running;
    this.#done += done;
    this.#say();
  }

  #say() {
    this.#tell(`This tab is a worker: ${this.#done} done, ${this.#running} at work.`);
  }
}
