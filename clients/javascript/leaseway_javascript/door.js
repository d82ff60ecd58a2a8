/**
 * The way into one queue: its address, the token or ticket that opens it, and requests over HTTP (PROTOCOL.md §2, §5).
 *
 * A browser cannot send headers on a WebSocket, so a socket is opened with a ticket, good for one connection, which a
 * token is exchanged for: no long-lived token enters a URL. No reconnecting here.
 */

import { AccessRefused, ConnectionLost, Forbidden, NoSuchQueue, Rejected, Unauthorized, UnknownItem } from "./errors.js";
import { rejected } from "./protocol.js";

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

/** Milliseconds that an exchange of a token for a ticket may take. */
const TICKET_WITHIN = 15_000;
const QUEUE = /^(\/[!-.0-~]+)*\/[a-z0-9][a-z0-9_-]{0,62}\/?$/;

export class Door {
  #http;
  #credentials;
  #fetch;
  /** @type {string | null} */
  #token = null;
  #ticketUsed = false;
  /** Whether what `getToken` gave was refused since it last let us in. */
  #refused = false;

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
   * Where to open a socket now. Throws `AccessRefused`, and `ConnectionLost` for what may pass.
   *
   * @param {"monitor" | "work"} kind
   * @returns {Promise<string>}
   */
  async socketUrl(kind) {
    const url = `${this.#http.replace(/^http/, "ws")}/${kind}`;
    const ticket = await this.#ticket().catch(passing);
    return ticket === null ? url : `${url}?ticket=${encodeURIComponent(ticket)}`;
  }

  /** The server let us in with what it was given. */
  entered() {
    this.#refused = false;
  }

  /** The server refused what `getToken` gave. Whether it is worth asking for another. @returns {boolean} */
  mayAskAgain() {
    const again = Boolean(this.#credentials.getToken) && !this.#refused;
    this.#refused = true;
    this.#token = null;
    return again;
  }

  /**
   * A request: the answer's JSON, or null where it has none. `path` comes after the queue's address.
   *
   * Throws `ConnectionLost`, `Unauthorized`, `Forbidden`, `NoSuchQueue`, `UnknownItem` and `Rejected`.
   *
   * @param {string} method
   * @param {string} path
   * @param {{query?: Record<string, string | string[]>, body?: any, signal?: AbortSignal}} [more]
   * @returns {Promise<any>}
   */
  async ask(method, path, more = {}) {
    const given = await this.#given();
    if (given !== null && typeof given === "object") throw new Unauthorized("a ticket is for sockets, not for requests");
    const response = await this.#request(method, path, more, given);
    if (response.status === 401 && given !== null && this.mayAskAgain()) return this.ask(method, path, more);
    if (!response.ok) throw await refusal(response, path);
    this.entered();
    return response.status === 204 ? null : response.json();
  }

  /** @returns {Promise<string | null>} */
  async #ticket() {
    const given = await this.#given();
    if (given === null) return null;
    if (typeof given === "object") return given.ticket;
    const more = { signal: AbortSignal.timeout(TICKET_WITHIN) };
    const response = await this.#request("POST", "tickets", more, given);
    if (response.status === 401 && this.mayAskAgain()) return this.#ticket();
    if (!response.ok) throw await refusal(response, "tickets");
    return checkToken((await response.json()).ticket);
  }

  /** A token, a ticket, or null where there is nothing to show. @returns {Promise<string | {ticket: string} | null>} */
  async #given() {
    const { token, ticket, getToken } = this.#credentials;
    if (token) return token;
    if (ticket) return this.#once(ticket);
    if (!getToken) return null;
    return this.#token ?? this.#keep(await asked(getToken));
  }

  /** @param {string} ticket */
  #once(ticket) {
    if (this.#ticketUsed) throw new Unauthorized("a ticket is good for one connection: pass getToken to come back");
    this.#ticketUsed = true;
    return { ticket };
  }

  /** @param {Given} given */
  #keep(given) {
    if (given === null || given === undefined) return null;
    if (typeof given === "object" && "ticket" in given) return { ticket: checkToken(given.ticket) };
    this.#token = checkToken(typeof given === "object" ? given.token : given);
    return this.#token;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{query?: Record<string, string | string[]>, body?: any, signal?: AbortSignal}} more
   * @param {string | null} token
   * @returns {Promise<Response>}
   */
  async #request(method, path, { query = {}, body, signal }, token) {
    const pairs = Object.entries(query).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
    const search = pairs.length ? `?${new URLSearchParams(pairs)}` : "";
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json" };
    if (token !== null) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    /** @type {RequestInit} A redirect is not followed: the token goes to the address that was given, and to no other. */
    const init = { method, headers, credentials: "omit", cache: "no-store", redirect: "error" };
    if (body !== undefined) init.body = JSON.stringify(body);
    if (signal) init.signal = signal;
    try {
      return await this.#fetch(`${this.#http}${path && "/"}${path}${search}`, init);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw new ConnectionLost(`cannot reach ${new URL(this.#http).origin}: ${/** @type {Error} */ (error).message}`);
    }
  }
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
 * What a status of the server means to a program.
 *
 * @param {Response} response
 * @param {string} path
 */
async function refusal(response, path) {
  const problem = await response.json().catch(() => ({}));
  const message = problem.detail ?? problem.title ?? `HTTP ${response.status}`;
  switch (response.status) {
    case 401:
      return new Unauthorized(message);
    case 403:
      return new Forbidden(message);
    case 404:
      return path.startsWith("items/") ? new UnknownItem(message) : new NoSuchQueue(message);
  }
  if (typeof problem.code !== "string") return new ConnectionLost(`HTTP ${response.status}, not from a Leaseway server`);
  return problem.errors ? rejected(problem) : new Rejected(problem.code, [{ path: "", message }]);
}
