// Brings a page to life: its values, its clock, its keys, and what its buttons do.

import { fill, tick, toast } from "./dom.js";
import { FORMATS } from "./formats.js";
import { keys } from "./keys.js";
import { onPulse, start, watch } from "./live.js";
import { palette } from "./palette.js";
import { machines } from "./machine.js";
import { records } from "./records.js";
import { sheets } from "./sheet.js";
import { squares } from "./squares.js";
import { story } from "./story.js";

const main = document.querySelector("main");
const wish = document.body.dataset.want;

function pulse(data) {
  const put = (name, text) => { for (const each of document.querySelectorAll(`[data-pulse="${name}"]`)) each.textContent = text; };
  put("ills", data.ills || "");
  put("waits", data.waits || "");
  put("share", FORMATS.percent(data.share));
  put("as_of", FORMATS.clock(data.as_of_ms));
  put("why_stale", data.why_stale ? FORMATS.shown(data.why_stale) : "");
  if (data.last) put("last", FORMATS.shown(`${data.last.subject} ${data.last.before} → ${data.last.after}`));
  document.querySelector(".stale").hidden = !data.stale;
  document.body.toggleAttribute("data-stale", data.stale);
}

function menu() {
  const button = document.querySelector(".menu");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
  });
}

function copying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard?.writeText(button.dataset.copy);
    toast("Copied.");
  });
}

function filters() {
  for (const form of document.querySelectorAll("form.filter")) {
    for (const field of form.querySelectorAll("select, input[type=checkbox]")) field.addEventListener("change", () => form.requestSubmit());
  }
}

if (wish) {
  watch(wish, (values) => {
    if (values.problem) { toast(values.problem.detail); return; }
    fill(main, values);
  });
}
onPulse(pulse);
setInterval(tick, 1000);
menu();
copying();
filters();
keys();
sheets();
palette();
squares();
machines(wish);
story();
records();
start();
