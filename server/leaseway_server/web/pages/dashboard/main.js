/**
 * The dashboard: one queue with its items, or all that one may see. It is a client like any other (PROTOCOL.md).
 *
 * Owns which screen is shown. Who looks is `session.js`'s, where one is `place.js`'s.
 */

import { AccessRefused, NoSuchQueue, Unauthorized } from "../../_client/errors.js";
import { element, fill } from "./element.js";
import { Overview } from "./overview.js";
import { linkTo, placeNow } from "./place.js";
import { QueueScreen } from "./queue-screen.js";
import { Session } from "./session.js";
import { SignIn } from "./sign-in.js";
import { offerThemes } from "./theme.js";

/** What the configuration takes as a queue's name. */
const QUEUE = /^[a-z0-9][a-z0-9_-]{0,62}$/;

class Dashboard {
  #session = new Session();
  #screen = partOf("screen");
  #links = partOf("queues");
  #sign = partOf("sign");
  /** What is shown, if it is a queue. @type {QueueScreen | null} */
  #open = null;
  #leave = new AbortController();

  constructor() {
    offerThemes(/** @type {HTMLSelectElement} */ (partOf("theme")));
    this.#sign.addEventListener("click", () => this.#signInOrOut());
    this.#session.addEventListener("queues", () => this.#showLinks());
    addEventListener("hashchange", () => this.#follow());
    void this.#begin();
  }

  async #begin() {
    try {
      await this.#session.refresh();
    } catch (error) {
      this.#failed(/** @type {Error} */ (error));
      return;
    }
    this.#welcome();
  }

  /** To where the address says; who sees nothing is asked for a token, who sees one queue is led there. */
  #welcome() {
    const { queues, signedIn } = this.#session;
    if (!queues.length && !signedIn) return this.#askForToken("This server shows its queues to those who have a token.");
    if (queues.length === 1 && !placeNow().queue) history.replaceState(null, "", linkTo(queues[0].queue));
    return this.#go();
  }

  /** Where somebody goes to another screen, reading and the keyboard go on at its heading. */
  #follow() {
    const before = this.#screen.firstChild;
    this.#go();
    const heading = this.#screen.querySelector("h1");
    if (!heading || this.#screen.firstChild === before || document.querySelector("dialog[open]")) return;
    heading.tabIndex = -1;
    heading.focus();
  }

  #go() {
    const place = placeNow();
    if (this.#open?.name === place.queue) return this.#open.openItem(place.item);
    const signal = this.#clear();
    this.#showLinks();
    document.title = place.queue ? `${place.queue} · Leaseway` : "Leaseway";
    if (!place.queue) return fill(this.#screen, new Overview(this.#session, signal, (error) => this.#failed(error)).root);
    if (!QUEUE.test(place.queue)) return this.#failed(new NoSuchQueue("no queue has such a name"));
    this.#open = new QueueScreen(this.#session, place.queue, signal, (error) => this.#failed(error));
    fill(this.#screen, this.#open.root);
    return this.#open.openItem(place.item);
  }

  /** What no screen can go on with. @param {Error} error */
  #failed(error) {
    if (error instanceof Unauthorized) {
      const wasIn = this.#session.signedIn;
      this.#session.signOut();
      this.#askForToken(wasIn ? "Your token is not valid, or not any more. Sign in again." : error.message);
    } else {
      this.#tell(error);
    }
  }

  /** @param {Error} error */
  #tell(error) {
    const { queue } = placeNow();
    const gone = queue && error instanceof AccessRefused;
    this.#clear();
    fill(
      this.#screen,
      element(
        "section",
        { class: "sheet narrow" },
        element("h1", {}, gone ? "This queue cannot be shown" : "That did not work"),
        element("p", { class: "fault", role: "alert" }, gone ? `${queue}: ${error.message}` : error.message),
        element("button", { onclick: () => this.#startOver() }, gone ? "Show what there is" : "Try again"),
      ),
    );
  }

  #startOver() {
    history.replaceState(null, "", location.pathname);
    void this.#begin();
  }

  /** @param {string} reason */
  #askForToken(reason) {
    this.#clear();
    document.title = "Sign in · Leaseway";
    const signIn = new SignIn(this.#session, reason, () => this.#welcome());
    fill(this.#screen, signIn.root);
    signIn.focus();
  }

  #signInOrOut() {
    if (!this.#session.signedIn) return this.#askForToken("With a token you see what is not open to everyone.");
    this.#session.signOut();
    return this.#startOver();
  }

  #showLinks() {
    const { queue } = placeNow();
    this.#sign.textContent = this.#session.signedIn ? "Sign out" : "Sign in";
    fill(
      this.#links,
      this.#session.queues.map(({ queue: name }) =>
        element("a", { href: linkTo(name), "aria-current": name === queue && "page" }, name),
      ),
    );
  }

  /** Ends what is shown with all that it asks for; gives the signal of what comes. */
  #clear() {
    this.#leave.abort();
    this.#leave = new AbortController();
    this.#open = null;
    fill(this.#screen);
    return this.#leave.signal;
  }
}

/** A part of the page that is always there. @param {string} id */
function partOf(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

new Dashboard();
