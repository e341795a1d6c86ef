// Ctrl-K: goes anywhere and begins anything by a few letters of its name.

import { h, root } from "./dom.js";
import { FORMATS } from "./formats.js";
import { open as sheet } from "./sheet.js";

const dialog = document.querySelector("dialog.palette");
let asked = 0, timer = 0, items = [], at = 0;

function choose(item) {
  if (!item) return;
  dialog.close();
  if (item.deed) sheet(item.deed);
  else location.assign(root + item.address);
}

function mark(list, input) {
  [...list.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === at)));
  const row = list.children[at];
  if (row) { input.setAttribute("aria-activedescendant", row.id); row.scrollIntoView({ block: "nearest" }); }
  else input.removeAttribute("aria-activedescendant");
}

async function ask(input, list, words) {
  const turn = ++asked;
  let told;
  try {
    const answer = await fetch(`${root}/api/find?q=${encodeURIComponent(input.value.toWellFormed().slice(0, 200))}`);
    told = await answer.json();
    if (!answer.ok) throw new Error(told.detail);
  } catch (fault) {
    if (turn === asked) { items = []; list.replaceChildren(); words.textContent = FORMATS.shown(fault.message); }
    return;
  }
  if (turn !== asked) return;
  items = told.items;
  at = 0;
  list.replaceChildren(...items.map((item, n) => h("li", { role: "option", id: `found-${n}`, onclick: () => choose(item) },
    h("span", { class: "kind dim" }, item.kind), " ", h("bdi", {}, FORMATS.shown(item.name) || "(a name of spaces, or none)"))));
  words.textContent = items.length ? "" : "Nothing has these letters in its name.";
  mark(list, input);
}

function open() {
  if (dialog.open || document.querySelector("dialog[open]")) return;
  const list = h("ul", { role: "listbox", id: "found", "aria-label": "found" });
  const words = h("p", { class: "dim", role: "status" });
  const input = h("input", { type: "search", role: "combobox", "aria-label": "Find a view, an action, a topic, a group or a broker", "aria-controls": "found", "aria-expanded": "true", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "topic, group, broker, view or action" });
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => ask(input, list, words), 100); });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { at = Math.min(items.length - 1, Math.max(0, at + step)); mark(list, input); event.preventDefault(); }
    else if (event.key === "Enter") { event.preventDefault(); choose(items[at]); }
  });
  dialog.replaceChildren(input, list, words);
  dialog.showModal();
  input.focus();
  ask(input, list, words);
}

export function palette() {
  const button = document.querySelector("button.find");
  button.hidden = false;
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") { event.preventDefault(); open(); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
