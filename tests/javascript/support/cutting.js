/** A proxy that cuts what goes through it, after so many bytes in either direction or so long, without a word. */

import net from "node:net";

export class CuttingProxy {
  cuts = 0;
  #server;
  #target;
  #random;
  #most;
  #live = new Set();

  /** @param {URL} target @param {number} most  cuts, and then no more @param {() => number} random */
  constructor(target, most, random) {
    this.#target = target;
    this.#most = most;
    this.#random = random;
    this.#server = net.createServer((client) => this.#connect(client));
  }

  /** Gives its port. */
  async listen() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this.#server.address().port;
  }

  close() {
    this.#server.close();
    for (const cut of this.#live) cut();
  }

  #connect(client) {
    const server = net.connect(Number(this.#target.port), this.#target.hostname);
    const end = () => {
      this.#live.delete(end);
      for (const socket of [client, server]) cutOff(socket);
    };
    this.#live.add(end);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ]) {
      const left = { bytes: this.#limit() };
      from.on("data", (data) => this.#pass(data, to, left, end));
      from.on("close", end);
      from.on("error", end);
    }
  }

  /** After how many bytes to cut: anywhere in the handshake, the hello, or some messages. */
  #limit() {
    return Math.floor(10 ** (1.9 + 2.4 * this.#random()));
  }

  #pass(data, to, left, end) {
    if (this.cuts >= this.#most || data.length < left.bytes) {
      left.bytes -= data.length;
      to.write(data);
      return;
    }
    this.cuts += 1;
    // What was passed before the cut arrives, or does not: the one with a close, the other with a reset.
    if (this.#random() < 0.5) {
      to.end(data.subarray(0, left.bytes), end);
    } else {
      end();
    }
  }
}

/** With a reset; one whose end was said already cannot be reset any more. */
function cutOff(socket) {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
