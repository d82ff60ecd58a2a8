/**
 * The posts of one client that have no answer yet: which are still to be sent, and which a lost socket leaves unknown.
 *
 * Pure. A post with a key is sent again on the next socket, since the server knows it again (PROTOCOL.md §5); another
 * one must not be said twice blindly.
 */

/**
 * @typedef {object} Post
 * @property {string} text
 * @property {boolean} repeatable
 * @property {boolean} watch  it asked for the item's states from the start
 * @property {boolean} sent  on the socket that stands
 * @property {boolean} everSent
 */

export class Posts {
  /** How many of them asked to be watched from the start. */
  watching = 0;
  /** @type {Map<number, Post>} */
  #posts = new Map();
  /** Those that are still to be sent, in order. @type {Set<number>} */
  #unsent = new Set();

  get size() {
    return this.#posts.size;
  }

  /**
   * This is to be sent after the others.
   *
   * @param {number} ref
   * @param {Pick<Post, "text" | "repeatable" | "watch">} post
   */
  add(ref, post) {
    this.#posts.set(ref, { ...post, sent: false, everSent: false });
    this.#unsent.add(ref);
    this.watching += Number(post.watch);
  }

  /** It was answered, or nobody waits for it any more; undefined where there is none such. @param {number} ref */
  take(ref) {
    const post = this.#posts.get(ref);
    this.#posts.delete(ref);
    this.#unsent.delete(ref);
    this.watching -= Number(post?.watch ?? false);
    return post;
  }

  /** All of them, by their numbers; none may be added meanwhile. @returns {Iterable<[number, string]>} */
  *texts() {
    for (const [ref, { text }] of this.#posts) yield [ref, text];
  }

  /** What to send next, or null. What was handed out counts as sent. @returns {string | null} */
  nextMessage() {
    const [ref] = this.#unsent;
    const post = ref === undefined ? undefined : this.#posts.get(ref);
    if (post === undefined) return null;
    this.#unsent.delete(/** @type {number} */ (ref));
    post.sent = post.everSent = true;
    return post.text;
  }

  /** The socket is gone: those that are unknown for good, and forgotten. The others are sent again, in their order. */
  lost() {
    const unknown = [...this.#posts].filter(([, post]) => post.sent && !post.repeatable).map(([ref]) => ref);
    for (const ref of unknown) this.take(ref);
    for (const post of this.#posts.values()) post.sent = false;
    this.#unsent = new Set(this.#posts.keys());
    return unknown;
  }
}
