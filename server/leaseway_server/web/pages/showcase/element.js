/** Elements made in one expression. Text is always text: nothing that is said here can become HTML. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [members]  of the element, `className` and `onclick` among them
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, members = {}, ...children) {
  const element = Object.assign(document.createElement(tag), members);
  element.append(...children);
  return element;
}

/** The element of that id, which the page has. @template {HTMLElement} T @param {string} id @returns {T} */
export function element(id) {
  return /** @type {T} */ (document.getElementById(id));
}
