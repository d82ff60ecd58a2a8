/** The server's end of the client's sockets and requests, in the hands of a test. */

import { settled } from "./clock.js";

const HELLO = { type: "hello", protocol: 1, queue: "demo", leaseMs: 30_000, maxMessageBytes: 1_048_576 };

/** What the client's sockets and requests come to. */
export class Peer {
  /** Every socket that was dialled, in order. */
  sockets = [];
  /** Every request over HTTP. */
  requests = [];
  answers = [];

  constructor() {
    const peer = this;
    this.WebSocket = class {
      constructor(url) {
        this.url = url;
        this.sent = [];
        this.closedHere = false;
        peer.sockets.push(this);
      }
      send(text) {
        this.sent.push(JSON.parse(text));
      }
      close() {
        this.closedHere = true;
      }
    };
    this.fetch = async (url, init) => {
      this.requests.push({ url, ...init });
      const [status, body] = this.answers.shift() ?? [503, {}];
      return new Response(JSON.stringify(body), { status });
    };
  }

  get socket() {
    return this.sockets.at(-1);
  }

  /** Lets the newest socket in. */
  async accept(hello = {}) {
    await settled();
    this.socket.onopen();
    await this.say({ ...HELLO, ...hello });
  }

  /** The server says this on the newest socket. */
  async say(...messages) {
    for (const message of messages) this.socket.onmessage?.({ data: JSON.stringify(message) });
    await settled();
  }

  /** The newest socket ends. */
  async drop(code = 1006, reason = "") {
    this.socket.onclose?.({ code, reason });
    await settled();
  }

  /** What the client said on the newest socket since the last look, the hello aside. */
  said() {
    return this.socket.sent.splice(0).filter((message) => !message.hello);
  }
}

export function view(id, rev, status = "pending", more = {}) {
  return { type: "status", id, rev, status, label: status, error: null, result: null, progress: null, ...more };
}

export const ID = "9f2c1a0b7d4e6f83";
export const OTHER = "0123456789abcdef";
