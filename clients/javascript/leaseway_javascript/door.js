/**
 * The way into one queue: its address, the token or ticket that opens it, and requests over HTTP (PROTOCOL.md §2, §5).
 *
 * A browser cannot send headers on a WebSocket, so a socket is opened with a ticket, good for one connection, which a
 * token is exchanged for: no long-lived token enters a URL. No reconnecting here.
 */

import {
  AccessRefused,
  ConnectionLost,
  Forbidden,
  NoSuchQueue,
  Rejected,
  Unauthorized,
  UnknownItem,
} from "./errors.js";
import { encode, rejected } from "./protocol.js";

/**
 * What lets us in; nothing where the queue is open to anyone.
 *
 * @typedef {object} Credentials
 * @property {string} [token]
 * @property {string} [ticket]  good for one connection, so not for a reconnect
 * @property {() => Given | Promise<Given>} [getToken]  asked for before the first connection, and again when what it
 *     gave is refused; a ticket is asked for before each connection. What it throws is tried again later
 */

/** @typedef {string | null | undefined | {token: string} | {ticket: string}} Given */

/**
 * What was shown at the door; several sockets may have shown the same. `entered`: it let one of them in. `again`: once
 * it was refused, whether to ask for another.
 *
 * @typedef {{token?: string, ticket?: string, entered: boolean, again?: boolean}} Pass
 */

/** Milliseconds that an exchange of a token for a ticket may take. */
const TICKET_WITHIN = 15_000;
/** The same of a question whether there is anybody at all. */
const ANSWER_WITHIN = 5_000;
const QUEUE = /^(\/[!-.0-~]+)*\/[a-z0-9][a-z0-9_-]{0,62}\/?$/;

export class Door {
  #http;
  #credentials;
  #fetch;
  /** What is shown until it is refused. @type {Pass | null} */
  #pass = null;
  #ticketUsed = false;
  /** How often in a row what `getToken` gave was refused before it let anybody in. */
  #strikes = 0;

  /**
   * Throws a `TypeError` for what is no queue's address or no credential.
   *
   * @param {string | URL} url
   * @param {Credentials} credentials
   * @param {import("./outside.js").Outside} outside
   */
  constructor(url, credentials, outside) {
    this.#http = address(url);
    const given = [credentials.token, credentials.ticket, credentials.getToken].filter((one) => one != null);
    if (given.length > 1) throw new TypeError("give one of token, ticket and getToken");
    checkToken(credentials.token ?? credentials.ticket);
    this.#credentials = credentials;
    this.#fetch = outside.fetch;
  }

  /** The queue's name. */
  get queue() {
    return this.#http.slice(this.#http.lastIndexOf("/") + 1);
  }

  /** The queue's address for HTTP, without a slash at its end. */
  get url() {
    return this.#http;
  }

  /**
   * Where to open a socket now, and what is shown there. Throws `AccessRefused`, and `ConnectionLost` for what may
   * pass.
   *
   * @param {"monitor" | "work"} kind
   * @returns {Promise<{url: string, pass: Pass}>}
   */
  async way(kind) {
    const url = `${this.#http.replace(/^http/, "ws")}/${kind}`;
    const pass = await this.#shown();
    const ticket = pass.token === undefined ? pass.ticket : await this.#ticketFor(pass).catch(passing);
    if (ticket === null) return this.way(kind);
    return { url: ticket === undefined ? url : `${url}?ticket=${encodeURIComponent(ticket)}`, pass };
  }

  /** The server let us in with this. @param {Pass} pass */
  entered(pass) {
    pass.entered = true;
    this.#strikes = 0;
  }

  /** The server refused this. Whether it is worth asking for another. @param {Pass} pass @returns {boolean} */
  mayAskAgain(pass) {
    if (!this.#credentials.getToken) return false;
    if (this.#pass === pass) this.#pass = null;
    if (pass.again === undefined) {
      this.#strikes += 1;
      pass.again = pass.entered || this.#strikes === 1;
    }
    return pass.again;
  }

  /**
   * A request: the answer's JSON, or null where it has none. `path` comes after the queue's address, or with a slash
   * before it after the server's.
   *
   * Throws `ConnectionLost`, `Unauthorized`, `Forbidden`, `NoSuchQueue`, `UnknownItem` and `Rejected`.
   *
   * @param {string} method
   * @param {string} path
   * @param {{query?: Record<string, string | string[]>, body?: any, signal?: AbortSignal}} [more]
   * @returns {Promise<any>}
   */
  async ask(method, path, more = {}) {
    if (this.#credentials.ticket !== undefined) throw noTicket();
    const pass = await unlessAborted(this.#shown(), more.signal);
    if (pass.ticket !== undefined) throw noTicket();
    const { status, body } = await this.#request(method, path, more, pass.token);
    if (status === 401 && this.mayAskAgain(pass)) return this.ask(method, path, more);
    if (status >= 400) throw refusal(status, body, path);
    this.entered(pass);
    return body;
  }

  /** Whether a Leaseway server answers at this address, whoever asks. Throws nothing. @returns {Promise<boolean>} */
  async answers() {
    const more = { signal: AbortSignal.timeout(ANSWER_WITHIN) };
    try {
      const { status, body } = await this.#request("GET", "", more, undefined);
      return status < 400 || !(refusal(status, body, "") instanceof ConnectionLost);
    } catch {
      return false;
    }
  }

  /**
   * A ticket for the token; null where the token is to be replaced.
   *
   * @param {Pass} pass
   * @returns {Promise<string | null>}
   */
  async #ticketFor(pass) {
    const more = { signal: AbortSignal.timeout(TICKET_WITHIN) };
    const { status, body } = await this.#request("POST", "tickets", more, pass.token);
    if (status === 401 && this.mayAskAgain(pass)) return null;
    if (status >= 400) throw refusal(status, body, "tickets");
    return checkToken(body?.ticket);
  }

  /** @returns {Promise<Pass>} */
  async #shown() {
    const { token, ticket, getToken } = this.#credentials;
    if (ticket !== undefined) this.#useUp();
    if (getToken) return this.#pass ?? this.#keep(await asked(getToken));
    return { ...(token !== undefined && { token }), ...(ticket !== undefined && { ticket }), entered: false };
  }

  #useUp() {
    if (this.#ticketUsed) throw new Unauthorized("a ticket is good for one connection: pass getToken to come back");
    this.#ticketUsed = true;
  }

  /** A ticket is used up at once, all else is shown again. @param {Given} given @returns {Pass} */
  #keep(given) {
    if (typeof given === "object" && given !== null && "ticket" in given) {
      return { ticket: checkToken(given.ticket), entered: false };
    }
    const token = typeof given === "string" ? given : given?.token;
    this.#pass = { ...(token !== undefined && { token: checkToken(token) }), entered: false };
    return this.#pass;
  }

  /** @param {string} path */
  #place(path) {
    if (path.startsWith("/")) return this.#http.slice(0, this.#http.lastIndexOf("/")) + path;
    return path ? `${this.#http}/${path}` : this.#http;
  }

  /**
   * The answer, whatever it says. Throws `ConnectionLost` where none came wholly.
   *
   * @param {string} method
   * @param {string} path
   * @param {{query?: Record<string, string | string[]>, body?: any, signal?: AbortSignal}} more
   * @param {string | undefined} token
   * @returns {Promise<{status: number, body: any}>}
   */
  async #request(method, path, { query = {}, body, signal }, token) {
    const pairs = Object.entries(query).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
    const search = pairs.length ? `?${new URLSearchParams(pairs)}` : "";
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json" };
    if (token !== undefined) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    /**
     * @type {RequestInit} A redirect is not followed: the token goes to the address that was given, and to no other.
     */
    const init = { method, headers, credentials: "omit", cache: "no-store", redirect: "error" };
    if (body !== undefined) init.body = encode(body, Infinity); // How much is too much, the server says.
    if (signal) init.signal = signal;
    try {
      const response = await this.#fetch(this.#place(path) + search, init);
      return { status: response.status, body: parsed(await response.text(), response.status) };
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof ConnectionLost) throw error;
      throw new ConnectionLost(`cannot reach ${new URL(this.#http).origin}: ${/** @type {Error} */ (error).message}`);
    }
  }
}

function noTicket() {
  return new Unauthorized("a ticket is for sockets, not for requests");
}

/**
 * The promise, or the signal's reason as soon as it is aborted.
 *
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
async function unlessAborted(promise, signal) {
  const over = new AbortController();
  const aborted = new Promise((_, reject) => {
    const stop = () => reject(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { signal: over.signal });
  });
  return Promise.race([promise, /** @type {Promise<never>} */ (aborted)]).finally(() => over.abort());
}

/** @param {() => Given | Promise<Given>} getToken */
async function asked(getToken) {
  try {
    return await getToken();
  } catch (error) {
    throw new ConnectionLost("getToken failed", { cause: error });
  }
}

/**
 * The queue's address over HTTP, without a slash at its end. Relative ones are the page's.
 *
 * @param {string | URL} given
 * @returns {string}
 */
function address(given) {
  let url;
  try {
    url = new URL(given, globalThis.location?.href);
  } catch {
    throw new TypeError("a queue's address is wss://host/queue, or the same with ws, https or http");
  }
  const scheme = url.protocol.replace(/^ws/, "http");
  if (!["http:", "https:"].includes(scheme) || !QUEUE.test(url.pathname)) {
    throw new TypeError("a queue's address is wss://host/queue, or the same with ws, https or http");
  }
  if (url.search || url.hash || url.username || url.password) {
    throw new TypeError("a queue's address holds no query, fragment or user: pass the token as token");
  }
  return `${scheme}//${url.host}${url.pathname.replace(/\/$/, "")}`;
}

/** @template T @param {T} token @returns {T} */
function checkToken(token) {
  if (token !== undefined && !(typeof token === "string" && /^[!-~]+$/.test(token))) {
    throw new TypeError("a token or ticket is printable ASCII without spaces");
  }
  return token;
}

/** What hinders a ticket may pass, unless it is the access itself. @param {Error} error @returns {never} */
function passing(error) {
  if (error instanceof AccessRefused || error instanceof ConnectionLost || error instanceof TypeError) throw error;
  throw new ConnectionLost(`no ticket: ${error.message}`);
}

/**
 * The JSON of an answer, null where it has none. Throws `ConnectionLost`.
 *
 * @param {string} text
 * @param {number} status
 */
function parsed(text, status) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    throw new ConnectionLost(`HTTP ${status}, not from a Leaseway server`);
  }
}

/**
 * What a status of the server means to a program.
 *
 * @param {number} status
 * @param {any} problem
 * @param {string} path
 */
function refusal(status, problem, path) {
  const message = problem?.detail ?? problem?.title ?? `HTTP ${status}`;
  if (status === 401) return new Unauthorized(message);
  if (status === 403) return new Forbidden(message);
  if (status === 404) return path.startsWith("items/") ? new UnknownItem(message) : new NoSuchQueue(message);
  if (typeof problem?.code !== "string") return new ConnectionLost(`HTTP ${status}, not from a Leaseway server`);
  return problem.errors ? rejected(problem) : new Rejected(problem.code, [{ path: "", message }]);
}
