/** What a screen reader says at once, though the eye finds it elsewhere. */

export function say(text) {
  document.getElementById("news").textContent = text;
}
