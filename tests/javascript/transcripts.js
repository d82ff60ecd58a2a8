/**
 * Replays transcripts (schemas/README.md) over the sockets and requests that JavaScript has, with the client's own
 * words.
 *
 * Each line of its input is one: `{"url", "queue", "tokens", "lines"}`; each is answered with `heard QUEUE played`, or
 * with why it was not. They are played beside each other. Whatever the server says, a state of the client that asked for
 * nothing of it must bear it.
 */

import readline from "node:readline";

import { FeedState } from "../../clients/javascript/leaseway_javascript/feed-state.js";
import { decode, encode, flatten } from "../../clients/javascript/leaseway_javascript/protocol.js";
import { WatchState } from "../../clients/javascript/leaseway_javascript/watch-state.js";
import { WorkerState } from "../../clients/javascript/leaseway_javascript/worker-state.js";
import { CuttingProxy } from "./support/cutting.js";
import { Names } from "./support/matching.js";

/** Milliseconds that a step may take. No transcript needs it on the good way. */
const PATIENCE = 10_000;
const BYSTANDERS = {
  monitor: () => [new WatchState(), new FeedState("mine")],
  work: () => [new WorkerState("bystander", 1)],
};

/** One socket of a transcript, with the relay that a drop cuts. The server's batches are taken apart. */
class Socket {
  #relay;
  #socket;
  #messages = [];
  #wake = () => {};
  #closed = null;
  #bystanders;

  static async open(url, kind) {
    const socket = new Socket();
    socket.#relay = new CuttingProxy(new URL(url), 0, Math.random);
    url.port = await socket.#relay.listen();
    socket.#bystanders = BYSTANDERS[kind]();
    for (const state of socket.#bystanders) state.opened({ maxMessageBytes: 1_048_576 }, 0);
    socket.#socket = new WebSocket(url);
    socket.#socket.onmessage = (event) => socket.#hear(event.data);
    await new Promise((resolve, reject) => {
      socket.#socket.onopen = resolve;
      socket.#socket.onerror = () => reject(new Error("the handshake was refused"));
      socket.#socket.onclose = (event) => {
        socket.#closed = event.code;
        socket.#wake();
      };
    });
    socket.#socket.onerror = null;
    return socket;
  }

  send(text) {
    this.#socket.send(text);
  }

  /** The next message; undefined where none comes any more. */
  async next() {
    while (!this.#messages.length && this.#closed === null) await new Promise((resolve) => (this.#wake = resolve));
    return this.#messages.shift();
  }

  /** Waits until it is closed, and must be told nothing before; gives its close code. */
  async closed() {
    const more = await this.next();
    if (more) throw new Error(`told by no line of the transcript: ${JSON.stringify(more)}`);
    this.#relay.close();
    return this.#closed;
  }

  close() {
    this.#socket.close(1000);
    return this.closed();
  }

  async drop() {
    this.#messages = [];
    this.#relay.close();
    await this.next();
  }

  #hear(data) {
    const message = decode(data);
    for (const state of this.#bystanders) state.received(message, 0);
    this.#messages.push(...flatten(message));
    this.#wake();
  }
}

class Player {
  sockets = new Map();
  requests = new Map();
  #names;
  #url;
  #queue;
  #tokens;

  constructor({ url, queue, tokens, lines: [head] }) {
    this.#names = new Names(head.values);
    this.#url = url;
    this.#queue = queue;
    this.#tokens = tokens;
  }

  async open(line) {
    const url = new URL(`${this.#url}/${line.queue ?? this.#queue}/${line.socket}`);
    url.protocol = "ws";
    this.#show(line, url);
    this.sockets.set(line.open, await Socket.open(url, line.socket));
  }

  from(line) {
    const write = line.broken ? JSON.stringify : encode;
    this.sockets.get(line.from).send(line.text ?? write(this.#names.fill(line.says)));
  }

  async to(line) {
    this.#names.match(line.says, await this.sockets.get(line.to).next());
  }

  close(line) {
    return this.#take(line.close).close();
  }

  drop(line) {
    return this.#take(line.drop).drop();
  }

  async closed(line) {
    const code = await this.#take(line.closed).closed();
    if (code !== line.code) throw new Error(`closed with ${code}`);
  }

  request(line) {
    const path = this.#names.write(line.path);
    const url = new URL(this.#url + (path.startsWith("/_") ? path : `/${line.queue ?? this.#queue}${path}`));
    const headers = new Headers(this.#show(line, url));
    if (["POST", "PATCH"].includes(line.method)) headers.set("content-type", "application/json");
    for (const [name, value] of Object.entries(line.headers ?? {})) headers.set(name, value);
    const body = "body" in line ? JSON.stringify(this.#names.fill(line.body)) : line.text;
    const answer = fetch(url, { method: line.method, headers, body });
    answer.catch(() => {}); // It is looked at later.
    this.requests.set(line.request, answer);
  }

  async response(line) {
    const answer = await this.requests.get(line.response);
    this.requests.delete(line.response);
    const text = await answer.text();
    if (answer.status !== line.status) throw new Error(`status ${answer.status}: ${text}`);
    if ("body" in line) this.#names.match(line.body, JSON.parse(text));
  }

  #take(name) {
    const socket = this.sockets.get(name);
    this.sockets.delete(name);
    return socket;
  }

  /**
   * Shows the line's token or ticket (PROTOCOL.md §2): requests in a header, sockets in the address, as in a browser.
   */
  #show(line, url) {
    if ("ticket" in line) url.searchParams.set("ticket", this.#names.write(line.ticket));
    const token = "user" in line ? this.#tokens[line.user] : line.token;
    if (token === undefined) return {};
    if (!("open" in line) && line.carry !== "query") return { authorization: `Bearer ${token}` };
    url.searchParams.set("token", token);
    return {};
  }
}

async function play(transcript) {
  const player = new Player(transcript);
  try {
    await playAll(player, transcript);
  } finally {
    for (const socket of player.sockets.values()) await socket.drop();
  }
}

async function playAll(player, transcript) {
  for (const [index, line] of transcript.lines.slice(1).entries()) {
    try {
      await within(player[Object.keys(line)[0]](line));
    } catch (error) {
      throw new Error(`line ${index + 2}: ${JSON.stringify(line).slice(0, 300)}: ${error.message}`);
    }
  }
  const left = [...player.sockets.keys(), ...player.requests.keys()];
  if (left.length) throw new Error(`left at the end: ${left}`);
}

async function within(step) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("nothing came")), PATIENCE)));
  try {
    await Promise.race([step, late]);
  } finally {
    clearTimeout(timer);
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const transcript = JSON.parse(line);
  play(transcript).then(
    () => console.log(`heard ${transcript.queue} played`),
    (error) => console.log(`heard ${transcript.queue} ${error.message.replaceAll("\n", " ")}`),
  );
}
