/** What goes wrong in a Web Worker, on purpose: an error that nobody catches, or a loop without an end. */

/** @param {{how: "crash" | "hang"}} item */
export function handler({ how }) {
  if (how === "hang") for (;;);
  setTimeout(() => {
    throw new Error("on purpose");
  });
  return new Promise(() => {});
}
