// A recipient's inbox over HTTP and its WebSocket: asks, is told, reconnects. Knows nothing of how it is shown.
//
//   const inbox = new Inbox({ base: "https://notify.example.com/", tokenUrl: "/notify-token" });
//   inbox.addEventListener("unread", (event) => …event.detail);
//   inbox.open();
//
// Events: "unread" (a number), "entries" (new ones, oldest first), "marked" ({verb, ids}), "anew" (look at the list
// again), "state" ("connecting", "open", "away", "signed-out").

const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;
const SIGNED_OUT = 4401;

export class Inbox extends EventTarget {
  #base;
  #token;
  #tokenUrl;
  #socket = null;
  #newest = null;
  #waits = 0;
  #timer = 0;
  #wanted = false;
  #echoes = new Set();
  #online = () => this.#again();

  // `token` is what one begins with; `tokenUrl`, an address of the application's, gives the following ones.
  constructor({ base, token = "", tokenUrl = "" }) {
    super();
    this.#base = new URL(base, document.baseURI);
    this.#token = token;
    this.#tokenUrl = tokenUrl;
    this.state = "connecting";
  }

  get base() {
    return this.#base.href;
  }

  open() {
    if (this.#wanted) return;
    this.#wanted = true;
    addEventListener("online", this.#online);
    void this.#connect();
  }

  close() {
    this.#wanted = false;
    removeEventListener("online", this.#online);
    clearTimeout(this.#timer);
    this.#socket?.close();
    this.#socket = null;
  }

  entries(query = {}) {
    return this.ask(`inbox?${new URLSearchParams(query)}`);
  }

  // `ids` of notifications, or null for all. The socket tells every page of it, but this one knows by then.
  async mark(verb, ids) {
    const echo = JSON.stringify([verb, ids]);
    if (this.state === "open") this.#echoes.add(echo);
    try {
      const told = await this.ask(`inbox/${verb}`, ids === null ? { all: true } : { ids });
      this.#tell("unread", told.unread);
    } catch (error) {
      this.#echoes.delete(echo);
      throw error;
    }
    this.#tell("marked", { verb, ids });
  }

  // The JSON of an answer; a body makes it a POST. Throws an Error with the service's own words.
  async ask(path, body) {
    let answer = await this.#fetch(path, body);
    if (answer.status === 401 && (await this.#renew())) answer = await this.#fetch(path, body);
    if (answer.status === 401) this.#setState("signed-out");
    if (!answer.ok) throw new Error(await words(answer));
    return answer.status === 204 ? null : answer.json();
  }

  async #fetch(path, body) {
    if (!this.#token) await this.#renew();
    const headers = { Authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const options = { headers, method: body === undefined ? "GET" : "POST", credentials: "omit", cache: "no-store" };
    return fetch(new URL(path, this.#base), { ...options, body: body && JSON.stringify(body) });
  }

  // Whether the application gave a new token. Its own cookies say who asks.
  async #renew() {
    if (!this.#tokenUrl) return false;
    try {
      const answer = await fetch(this.#tokenUrl, { credentials: "include", cache: "no-store" });
      if (!answer.ok) return false;
      this.#token = (await answer.json()).token;
      return typeof this.#token === "string";
    } catch {
      return false;
    }
  }

  async #connect() {
    clearTimeout(this.#timer);
    if (!this.#token && !(await this.#renew())) {
      if (this.#tokenUrl) this.#later();
      else this.#setState("signed-out");
      return;
    }
    if (!this.#wanted) return;
    const address = new URL("inbox/live", this.#base);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ token: this.#token, after: this.#newest }));
    socket.onmessage = (event) => socket === this.#socket && this.#told(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.#socket && this.#lost(event.code);
  }

  #told(message) {
    if (message.type === "hello") {
      this.#waits = 0;
      this.#setState("open");
    }
    if (message.type === "entries") {
      this.#newest = message.entries.at(-1).number;
      this.#tell("entries", message.entries);
    }
    if (message.type === "marked") {
      const { verb, ids } = message;
      if (!this.#echoes.delete(JSON.stringify([verb, ids]))) this.#tell("marked", { verb, ids });
    }
    if (message.type === "anew") this.#tell("anew", null);
    if (message.unread !== undefined) this.#tell("unread", message.unread);
  }

  // What the page has already, so that nothing is told twice and nothing is missed while the connection is away.
  has(number) {
    this.#newest = Math.max(this.#newest ?? 0, number);
  }

  async #lost(code) {
    this.#socket = null;
    this.#echoes.clear();
    if (!this.#wanted) return;
    if (code === SIGNED_OUT && !(await this.#renew())) {
      this.#token = "";
      if (!this.#tokenUrl) {
        this.#setState("signed-out");
        return;
      }
    }
    this.#later();
  }

  #later() {
    this.#setState("away");
    const most = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#waits);
    this.#waits = Math.min(this.#waits + 1, 10);
    this.#timer = setTimeout(() => this.#connect(), Math.random() * most);
  }

  #again() {
    if (this.#wanted && this.state === "away" && !this.#socket) {
      this.#waits = 0;
      void this.#connect();
    }
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.#tell("state", state);
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

// Where a notification leads, if that is a page: anything else, such as javascript:, is no link. What programs take for
// an address is not always one to a browser.
export function linkOf(entry, base) {
  if (!entry.url || !URL.canParse(entry.url, base)) return "";
  const url = new URL(entry.url, base);
  return url.protocol === "https:" || url.protocol === "http:" ? url.href : "";
}

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

// How long ago that was, in the reader's language.
export function age(at, now = Date.now()) {
  const [unit, length] = UNITS.find(([, length]) => now - at >= length) ?? ["minute", 60_000];
  return ago.format(-Math.floor(Math.max(0, now - at) / length), unit);
}

// An element with these attributes; what begins with "on" listens.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

async function words(answer) {
  try {
    return (await answer.json()).detail;
  } catch {
    return `the service answered ${answer.status}`;
  }
}
