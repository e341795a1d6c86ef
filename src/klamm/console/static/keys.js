// Everything works with Tab, Enter and arrows; these keys are quicker. They can be switched off.

import { root } from "./dom.js";

const PLACES = { h: "/", t: "/topics", w: "/waits", g: "/groups", b: "/brokers", l: "/ledger", j: "/jobs", d: "/deletions", m: "/moves", e: "/elections", f: "/what-if", c: "/compare" };
const THEMES = ["system", "light", "dark"];
let going = false;

function stored(name, usual) {
  try { return localStorage.getItem(name) ?? usual; } catch { return usual; }
}

function store(name, value) {
  try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing */ }
}

function theme(next) {
  const root = document.documentElement;
  const now = stored("klamm-theme", "system");
  const chosen = next ? THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] : now;
  root.dataset.theme = THEMES.includes(chosen) ? chosen : "system";
  store("klamm-theme", root.dataset.theme);
}

function row(step) {
  const rows = [...document.querySelectorAll("[data-rows] tbody tr")];
  const now = rows.findIndex((each) => each.contains(document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, now + step))]?.querySelector("a, button")?.focus();
}

function go(letter) {
  const link = document.querySelector(`.bar nav a[href="${PLACES[letter] ? root + PLACES[letter] : ""}"]`);
  if (link) location.assign(link.href);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, select, textarea, dialog")) return;
  if (stored("klamm-keys", "on") !== "on") return;
  if (going) { going = false; go(event.key); return; }
  const actions = {
    g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
    "/": () => document.querySelector('[data-key="/"]')?.focus(),
    j: () => row(1),
    k: () => row(-1),
    ".": () => document.activeElement?.closest("tr")?.querySelector("button:not([hidden])")?.focus(),
    c: () => document.querySelector(".foot [data-copy]")?.click(),
    t: () => theme(true),
    "?": () => location.assign(`${root}/about`),
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
}

export function keys() {
  theme(false);
  document.addEventListener("keydown", pressed);
  const box = document.querySelector("#keys-on");
  if (!box) return;
  box.checked = stored("klamm-keys", "on") === "on";
  box.addEventListener("change", () => store("klamm-keys", box.checked ? "on" : "off"));
}
