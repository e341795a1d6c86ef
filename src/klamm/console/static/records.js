// Follows a topic: asks for what came since, a few times a second, and shows at most fifty a round.

import { fill, root } from "./dom.js";
import { FORMATS } from "./formats.js";

const ROUND_MS = 500, SHOWN = 200, UNSEEN_MS = 15 * 60 * 1000;

export function records() {
  const table = document.querySelector("table.records"), button = document.querySelector("button.tail");
  if (!table || !button) return;
  const words = document.querySelector(".scanned"), form = document.querySelector(".records-form");
  let cursor = table.dataset.cursor, timer = 0, items = [], seen = Date.now();
  const query = () => new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && !["from", "at"].includes(name)));
  const round = async () => {
    const wanted = query();
    wanted.set("cursor", cursor);
    wanted.set("limit", "50");
    if (!document.hidden) seen = Date.now();
    if (Date.now() - seen > UNSEEN_MS) { stop("nobody looked for a quarter of an hour"); return; }
    try {
      const answer = await fetch(`${root}/api/topics/${encodeURIComponent(table.dataset.topic)}/records?${wanted}`);
      const told = await answer.json();
      if (!answer.ok) { stop(told.detail); return; }
      cursor = told.cursor;
      if (told.items.length) {
        items = [...told.items.reverse(), ...items].slice(0, SHOWN);
        fill(table, { items });
      }
      words.textContent = `following: ${FORMATS.number(told.items.length)} of ${FORMATS.number(told.scanned)} new records fit${told.stopped === "enough" ? "; more come than are shown" : ""}`;
    } catch { words.textContent = "the console does not answer; trying again"; }
    timer = setTimeout(round, ROUND_MS);
  };
  const stop = (why) => {
    clearTimeout(timer);
    timer = 0;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Tail";
    words.textContent = `stopped: ${why}`;
  };
  button.addEventListener("click", () => {
    if (timer) { stop("by you; Tail goes on from here"); return; }
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Pause";
    timer = 1;
    round();
  });
}
