// <leaseway-bell>: a bell that shows how many notifications are unread, rings when one comes, and opens the newest ones.
//
//   <script type="module" src="https://notify.example.com/bell.js"></script>
//   <leaseway-bell token-url="/notify-token"></leaseway-bell>
//
// Attributes: `token-url`, the application's address that answers {"token": "…"}; or `token`, one that is good for a
// while; `base`, the service's address, where it is not this script's; `inbox`, where "All notifications" leads.
// Colours: --bell-ink, --bell-sheet, --bell-line, --bell-accent. Events, which bubble: `notification` with the entry.

import { Inbox, age, linkOf, make } from "./live.js";

const SHOWN = 10;
const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
  :host { --ink: var(--bell-ink, light-dark(#18201e, #e6ecea)); --sheet: var(--bell-sheet, light-dark(#fff, #1b2120));
    --line: var(--bell-line, light-dark(#d5dbd9, #37413f)); --accent: var(--bell-accent, light-dark(#0b6e5f, #4fc3ae));
    display: inline-block; position: relative; font: 1rem/1.4 system-ui, sans-serif; color: var(--ink);
    color-scheme: light dark; }
  :host([hidden]), [hidden] { display: none !important; }
  * { box-sizing: border-box; }
  button { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: .4rem;
    padding: .4rem .7rem; min-height: 2.75rem; cursor: pointer; }
  button:focus-visible, a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
  .bell { position: relative; width: 2.75rem; padding: .4rem; border-radius: 50%; }
  svg { display: block; width: 100%; height: auto; fill: none; stroke: currentColor; stroke-width: 1.8;
    stroke-linecap: round; stroke-linejoin: round; }
  .count { position: absolute; top: -.35rem; right: -.35rem; min-width: 1.35rem; padding: 0 .3rem; border-radius: 1rem;
    background: light-dark(#a4231a, #ff9188); color: light-dark(#fff, #2b0703); font-size: .8rem; font-weight: 700;
    line-height: 1.35rem; text-align: center; }
  .away svg { opacity: .45; }
  .panel { position: absolute; z-index: 10; top: calc(100% + .4rem); right: 0; width: min(24rem, 92vw);
    max-height: min(32rem, 75vh); overflow: auto; background: var(--sheet); border: 1px solid var(--line);
    border-radius: .6rem; box-shadow: 0 .5rem 2rem #0004; }
  .head { display: flex; justify-content: space-between; align-items: center; gap: .5rem; padding: .5rem .8rem;
    position: sticky; top: 0; background: var(--sheet); border-bottom: 1px solid var(--line); }
  h2 { margin: 0; font-size: 1rem; }
  ul { list-style: none; margin: 0; padding: 0; }
  li { padding: .7rem .8rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
  li.unread { border-inline-start: .25rem solid var(--accent); }
  li p { margin: .1rem 0 0; white-space: pre-line; }
  li small { opacity: .75; }
  a { color: var(--accent); }
  [role="alert"] { margin: 0; padding: .7rem .8rem; color: light-dark(#a4231a, #ff9188); }
  [role="alert"]:empty { display: none; }
  .foot, .empty { padding: .7rem .8rem; margin: 0; }
  .quiet { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @keyframes ring { 15%, 45%, 75% { transform: rotate(14deg); } 30%, 60%, 90% { transform: rotate(-14deg); } }
  .rings svg { animation: ring .7s; transform-origin: 50% 10%; }
  @media (prefers-reduced-motion: reduce) { .rings svg { animation: none; } }
  @media (max-width: 30rem) { .panel { position: fixed; inset: auto .5rem .5rem; top: auto; width: auto; } }
`);
const SHAPE = "M6 9a6 6 0 0 1 12 0c0 6 2.5 7 2.5 8h-17C3.5 16 6 15 6 9Zm3.8 11a2.4 2.4 0 0 0 4.4 0";

export class LeasewayBell extends HTMLElement {
  #inbox = null;
  #given = false;
  #unread = 0;
  #entries = [];
  #parts;
  #outside = (event) => !event.composedPath().includes(this) && this.#show(false);

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [STYLE];
    this.#parts = parts(this);
    root.append(this.#parts.button, this.#parts.panel, this.#parts.status);
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.open) {
        this.#show(false);
        this.#parts.button.focus();
        event.stopPropagation();
      }
    });
  }

  // An inbox that the page has already; set before the bell is put into the page, it is used instead of an own one.
  set inbox(inbox) {
    this.#given = true;
    this.#listen(inbox);
  }

  get open() {
    return !this.#parts.panel.hidden;
  }

  connectedCallback() {
    this.#render();
    if (!this.#given) {
      const { token, base } = { token: this.getAttribute("token") ?? "", base: this.getAttribute("base") };
      const tokenUrl = this.getAttribute("token-url") ?? "";
      this.#listen(new Inbox({ base: base ?? new URL("./", import.meta.url), token, tokenUrl }));
    }
    this.#inbox.open();
    document.addEventListener("click", this.#outside);
  }

  disconnectedCallback() {
    document.removeEventListener("click", this.#outside);
    if (!this.#given) this.#inbox.close();
  }

  #listen(inbox) {
    this.#inbox = inbox;
    inbox.addEventListener("unread", ({ detail }) => {
      this.#unread = detail;
      this.#render();
    });
    inbox.addEventListener("entries", ({ detail }) => this.#came(detail));
    inbox.addEventListener("state", () => this.#render());
    for (const type of ["marked", "anew"]) inbox.addEventListener(type, () => this.open && this.#load());
  }

  #came(entries) {
    const { button, status } = this.#parts;
    button.classList.remove("rings");
    void button.offsetWidth; // So that it begins anew.
    button.classList.add("rings");
    const newest = entries.at(-1);
    status.textContent = entries.length === 1 ? `New: ${newest.title}` : `${entries.length} new: ${newest.title}`;
    for (const entry of entries) {
      this.dispatchEvent(new CustomEvent("notification", { detail: entry, bubbles: true, composed: true }));
    }
    if (this.open) void this.#load();
  }

  toggle() {
    this.#show(!this.open);
  }

  #show(open) {
    this.#parts.panel.hidden = !open;
    this.#parts.button.setAttribute("aria-expanded", String(open));
    if (open) void this.#load();
  }

  async #load() {
    const { fault, list } = this.#parts;
    try {
      const told = await this.#inbox.entries({ limit: SHOWN });
      this.#entries = told.entries;
      this.#unread = told.unread;
      fault.textContent = "";
      list.replaceChildren(...this.#entries.map((entry) => this.#row(entry)));
    } catch (error) {
      fault.textContent = `The notifications cannot be shown: ${error.message}`;
    }
    this.#render();
  }

  #row(entry) {
    const href = linkOf(entry, this.#inbox.base);
    const read = () => void this.readAll([entry.id]);
    const title = href ? make("a", { href, onclick: read }, entry.title) : make("strong", {}, entry.title);
    const when = make("small", {}, make("time", { datetime: new Date(entry.createdAt).toISOString() }, age(entry.createdAt)));
    const unread = entry.readAt === null;
    const row = make("li", { class: unread ? "unread" : null }, title);
    if (unread) row.append(make("span", { class: "quiet" }, " (unread)"));
    if (entry.body) row.append(make("p", {}, entry.body));
    row.append(make("div", {}, when));
    return row;
  }

  // Marks these as read, or all (null).
  async readAll(ids = null) {
    try {
      await this.#inbox.mark("read", ids);
    } catch (error) {
      this.#parts.fault.textContent = `It could not be marked: ${error.message}`;
    }
  }

  #render() {
    const { button, count, panel, all, empty, more } = this.#parts;
    const state = this.#inbox?.state ?? "connecting";
    count.textContent = this.#unread > 99 ? "99+" : String(this.#unread);
    count.hidden = this.#unread === 0;
    button.classList.toggle("away", state === "away" || state === "signed-out");
    const what = { away: ", not connected", "signed-out": ", signed out" }[state] ?? "";
    button.setAttribute("aria-label", `Notifications, ${this.#unread || "none"} unread${what}`);
    button.dataset.state = state;
    if (this.#unread === 0 && this.shadowRoot.activeElement === all) panel.focus(); // It goes; the keyboard stays.
    all.hidden = this.#unread === 0;
    empty.hidden = this.#entries.length > 0;
    const inbox = this.getAttribute("inbox");
    more.hidden = !inbox;
    if (inbox) more.firstElementChild.href = inbox;
  }
}

function parts(bell) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPE);
  svg.append(path);
  const count = make("span", { class: "count", "aria-hidden": "true", hidden: true });
  const attributes = { class: "bell", type: "button", "aria-haspopup": "dialog", "aria-expanded": "false" };
  const button = make("button", { ...attributes, "aria-controls": "panel", onclick: () => bell.toggle() }, svg, count);
  const all = make("button", { type: "button", onclick: () => bell.readAll() }, "Mark all read");
  const head = make("div", { class: "head" }, make("h2", { id: "title" }, "Notifications"), all);
  const fault = make("p", { role: "alert" });
  const list = make("ul", { "aria-labelledby": "title" });
  const empty = make("p", { class: "empty" }, "Nothing yet.");
  const more = make("p", { class: "foot" }, make("a", {}, "All notifications"));
  const about = { class: "panel", id: "panel", role: "dialog", "aria-labelledby": "title", tabindex: "-1", hidden: true };
  const panel = make("div", about, head, fault, list, empty, more);
  const status = make("div", { class: "quiet", role: "status" });
  return { button, count, panel, all, fault, list, empty, more, status };
}

customElements.define("leaseway-bell", LeasewayBell);
