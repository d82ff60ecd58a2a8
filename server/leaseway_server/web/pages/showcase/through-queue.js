/**
 * The pictures through the queue `resize`: this page posts them and watches; it, or another tab, works on them.
 *
 * Owns the connection to the queue and what is told of it. A token stays in memory and is gone with the page.
 */

import { ConnectionLost, NoSuchQueue, Queue, SocketsBlocked, Unauthorized, UnknownItem } from "/_client/index.js";

import { element } from "./element.js";
import { fit } from "./fit.js";
import { Posted } from "./posted.js";
import { forget, postedBefore, remember } from "./posted-before.js";
import { Working } from "./working.js";

/** @typedef {import("/_client/index.js").Job} Job */

const URL_OF_QUEUE = "/resize";
/** So long a connection may take, milliseconds, before it is told what hinders it. */
const CONNECT_WITHIN_MS = 10_000;
const BLOCKED =
  "A proxy in between seems to block WebSockets, and this part needs them. " +
  "The two threads above do not; and the dashboard can post over HTTP.";
/** Characters of an item beside its picture. */
const ROOM = 1_000;

export class ThroughQueue {
  #pictures;
  /** @type {Queue | null} */
  #queue = null;
  /** What keeps the connection from standing, as far as that is known; a try that fails does not make it less so. */
  #hindrance = "";
  /** @type {{token?: string}} */
  #credentials = {};
  #most = 0;
  /** @type {Working | null} */
  #working = null;

  /** @param {import("./pictures.js").Pictures} pictures */
  constructor(pictures) {
    this.#pictures = pictures;
    this.#on("access", "submit", () => this.connect());
    this.#on("post", "submit", () => this.#post());
    this.#on("work", "click", () => (this.#working ? this.#working.stop() : this.#work()));
  }

  /** Asks for the queue with the token that is in the form, and tells what comes of it. */
  async connect() {
    this.#queue?.close();
    this.#state("connecting", "Asking for the queue …");
    const token = /** @type {HTMLInputElement} */ (element("token")).value;
    this.#credentials = token ? { token } : {};
    try {
      const queue = (this.#queue = new Queue(URL_OF_QUEUE, this.#credentials));
      const { limits, rights } = await queue.ask("GET", "");
      this.#most = limits.maxValueBytes - ROOM;
      this.#opened(queue, rights);
    } catch (error) {
      this.#refused(/** @type {Error} */ (error));
    }
  }

  /** @param {Queue} queue @param {string[]} rights */
  #opened(queue, rights) {
    this.#hindrance = "No connection for now. It comes back by itself.";
    queue.addEventListener("online", () => this.#state("open", "Connected: changes are shown as they happen."));
    queue.addEventListener("offline", () => this.#state("lost", this.#hindrance));
    queue.addEventListener("refused", (event) => this.#refused(/** @type {any} */ (event).error));
    this.#fields(false, rights);
    element("access").hidden = element("absent").hidden = true;
    queue.connected({ timeoutMs: CONNECT_WITHIN_MS }).catch((error) => this.#hindered(queue, error));
    void this.#showFigures(queue);
    void this.#showPostedBefore(queue).catch(() => {}); // What went wrong is told as the state of the connection.
  }

  /** A refusal is told already. @param {Queue} queue @param {Error} error */
  #hindered(queue, error) {
    if (queue !== this.#queue || !(error instanceof ConnectionLost)) return;
    this.#hindrance = error instanceof SocketsBlocked ? BLOCKED : `${error.message}. It is tried again by itself.`;
    this.#state("lost", this.#hindrance);
  }

  /**
   * What was refused may be mended by a token, or by a queue of that name. Without a token one cannot tell which.
   *
   * @param {Error} error
   */
  #refused(error) {
    this.#state("refused", error.message);
    this.#fields(true, []);
    element("access").hidden = false;
    element("absent").hidden = !(error instanceof NoSuchQueue || error instanceof Unauthorized);
  }

  /** @param {boolean} closed @param {string[]} rights */
  #fields(closed, rights) {
    const disable = (/** @type {string} */ id, /** @type {boolean} */ off) => {
      /** @type {HTMLFieldSetElement} */ (element(id)).disabled = closed || off;
    };
    disable("posting", !rights.includes("post"));
    disable("working", !rights.includes("work"));
  }

  /** @param {Queue} queue */
  async #showFigures(queue) {
    try {
      for await (const { counts, workers } of queue.stats()) {
        const busy = `${counts.pending ?? 0} waiting, ${counts.processing ?? 0} at work, workers: ${workers}.`;
        element("figures").textContent = workers ? busy : `${busy} Work in this tab, or in another one.`;
      }
    } catch {
      element("figures").textContent = ""; // Not for us to see; or over, and then the state says why.
    }
  }

  /** The cards of before the page was loaded anew. @param {Queue} queue */
  async #showPostedBefore(queue) {
    const list = element("posted");
    list.replaceChildren();
    const postings = postedBefore().toReversed();
    const images = await Promise.all(postings.map(({ id }) => imageOf(queue, id)));
    postings.forEach(({ id, name }, at) => {
      const image = images[at];
      if (image) void follow(new Posted(name, image), queue.job(id), (card) => list.append(card));
    });
  }

  async #post() {
    if (!this.#pictures.all.length) throw new Error("Pick pictures first, or draw samples.");
    await Promise.all(this.#pictures.all.map(({ file }) => this.#postOne(file)));
  }

  /** @param {File} file */
  async #postOne(file) {
    const queue = /** @type {Queue} */ (this.#queue);
    const width = /** @type {HTMLInputElement} */ (element("width")).valueAsNumber;
    const format = /** @type {HTMLSelectElement} */ (element("format")).value;
    const image = await fit(file, this.#most).catch((error) => {
      throw new Error(`${file.name}: ${error.message}`);
    });
    // With a key a post is said again where the connection dropped, and is in the queue once.
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    const job = queue.post({ image, format, width }, { key });
    void job.then(({ id }) => remember({ id, name: file.name }), () => {}); // Its card tells a failure.
    await follow(new Posted(file.name, image), job, (card) => element("posted").prepend(card));
  }

  async #work() {
    const tell = (/** @type {string} */ text) => (element("worked").textContent = text);
    const working = (this.#working = new Working(URL_OF_QUEUE, this.#credentials, tell));
    element("work").textContent = "Stop working";
    try {
      await working.stopped;
      tell("This tab has stopped working.");
    } finally {
      this.#working = null;
      element("work").textContent = "Work in this tab";
    }
  }

  /** @param {string} id @param {string} kind @param {() => Promise<void>} act  what it throws is told */
  #on(id, kind, act) {
    element(id).addEventListener(kind, async (event) => {
      event.preventDefault();
      element("message").textContent = "";
      await act().catch((error) => (element("message").textContent = error.message));
    });
  }

  /** @param {string} state @param {string} text */
  #state(state, text) {
    const line = element("connection");
    line.dataset.state = state;
    line.textContent = text;
  }
}

/**
 * A card, until the item's end.
 *
 * @param {Posted} posted
 * @param {Job | Promise<Job>} job
 * @param {(card: HTMLElement) => void} put  where it belongs
 */
async function follow(posted, job, put) {
  put(posted.root);
  try {
    await posted.follow(await job);
  } catch (error) {
    posted.fail(/** @type {Error} */ (error));
  }
}

/**
 * The picture that was posted; null where the item is no more.
 *
 * @param {Queue} queue
 * @param {string} id
 * @returns {Promise<string | null>}
 */
async function imageOf(queue, id) {
  try {
    return (await queue.ask("GET", `items/${id}/item`)).image;
  } catch (error) {
    if (!(error instanceof UnknownItem)) throw error;
    forget(id);
    return null;
  }
}
