// The story as lanes one can scrub: a bar for each state that a thing was in.

import { h, root } from "./dom.js";
import { FORMATS } from "./formats.js";
import { watch } from "./live.js";

const SVG = "http://www.w3.org/2000/svg";
const LANE = 20, LEFT = 150, LANES_MAX = 200, WIDTH = 1000;

function s(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function rank(subject) {
  return subject.startsWith("topic ") ? 0 : 1;
}

// Lanes by subject, in the order topic, partition, its replicas, its in-sync set.
export function lanesOf(lines) {
  const lanes = new Map();
  lines.forEach((line, place) => {
    if (!lanes.has(line.subject)) lanes.set(line.subject, []);
    lanes.get(line.subject).push({ place, state: line.after, line });
  });
  const order = new Intl.Collator("en", { numeric: true });
  return [...lanes].sort((a, b) => rank(a[0]) - rank(b[0]) || order.compare(a[0], b[0])).slice(0, LANES_MAX);
}

function bars(lanes, lines, topic) {
  const last = Math.max(1, lines.length), step = (WIDTH - LEFT) / last;
  const root = s("svg", { viewBox: `0 0 ${WIDTH} ${lanes.length * LANE + 4}`, role: "img", "aria-label": "states over time, one lane for each partition and replica" });
  lanes.forEach(([subject, moves], row) => {
    const y = row * LANE + 3;
    root.append(s("text", { x: LEFT - 8, y: y + 11, class: "lane" }, FORMATS.shown(subject.startsWith(`${topic}-`) ? `partition ${subject.slice(topic.length + 1)}`.replace(/^partition (\d+ on)/, "$1") : "topic")));
    moves.forEach((move, n) => {
      const end = n + 1 < moves.length ? moves[n + 1].place : last;
      const wide = Math.max(1.5, (end - move.place) * step - 1);
      const bar = s("rect", { x: LEFT + move.place * step, y, width: wide, height: LANE - 6, rx: 2, class: "bar", "data-state": move.state, "data-illegal": move.line.illegal ? "1" : "" }, s("title", {}, FORMATS.shown(`${subject}: ${move.line.before} → ${move.state}, ${FORMATS.clock(move.line.time_ms)}, ${move.line.cause}`)));
      root.append(bar);
      if (wide > move.state.length * 6.5 + 8) root.append(s("text", { x: LEFT + move.place * step + 5, y: y + 11, class: "word", "data-state": move.state }, FORMATS.shown(move.state)));
    });
  });
  let epoch = lines[0]?.id.split(".")[0];
  lines.forEach((line, place) => {
    if (line.id.split(".")[0] === epoch) return;
    epoch = line.id.split(".")[0];
    const x = LEFT + place * step;
    root.append(s("line", { x1: x, x2: x, y1: 0, y2: lanes.length * LANE, class: "term" }, s("title", {}, `another controller, epoch ${epoch}`)));
  });
  const hand = s("line", { x1: 0, x2: 0, y1: 0, y2: lanes.length * LANE + 4, class: "hand" });
  root.append(hand);
  return { root, move: (place) => { const x = LEFT + (place + 1) * step; hand.setAttribute("x1", x); hand.setAttribute("x2", x); } };
}

function states(lines, place) {
  const found = new Map();
  for (const line of lines.slice(0, place + 1)) found.set(line.subject, line.after);
  return found;
}

const GLYPHS = { Online: ".", Offline: "x", New: "+", DeletionStarted: "-", DeletionIneligible: "!", DeletionSuccessful: "o" };
const ROWS_MAX = 100;

// The replicas as they were: a row a partition, a column a broker, as far as the lines tell.
export function matrixAt(found, topic) {
  const rows = new Map(), brokers = new Set();
  for (const [subject, state] of found) {
    const told = subject.startsWith(`${topic}-`) && /^(\d+) on broker (\d+)$/.exec(subject.slice(topic.length + 1));
    if (!told) continue;
    if (!rows.has(Number(told[1]))) rows.set(Number(told[1]), new Map());
    rows.get(Number(told[1])).set(Number(told[2]), state);
    brokers.add(Number(told[2]));
  }
  if (!rows.size) return [];
  const columns = [...brokers].sort((a, b) => a - b), shown = [...rows].sort((a, b) => a[0] - b[0]);
  const cell = (state) => h("td", {}, state ? h("span", { class: "cell", "data-code": GLYPHS[state] ?? "o", title: FORMATS.shown(state) }, GLYPHS[state] ?? "o") : "");
  const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "p"), ...columns.map((id) => h("th", { scope: "col" }, `broker ${id}`))));
  const body = h("tbody", {}, ...shown.slice(0, ROWS_MAX).map(([p, states]) => h("tr", { "data-partition": p }, h("th", { scope: "row" }, String(p)), ...columns.map((id) => cell(states.get(id))))));
  const rest = shown.length > ROWS_MAX ? [h("p", { class: "dim" }, `and ${FORMATS.number(shown.length - ROWS_MAX)} partitions more`)] : [];
  return [h("div", { class: "scroll" }, h("table", { class: "was" }, h("caption", { class: "dim" }, "The replicas as they were"), head, body)), ...rest];
}

export async function story() {
  const box = document.querySelector(".timeline");
  if (!box) return;
  const topic = box.dataset.topic, slider = box.querySelector("input"), now = box.querySelector(".now"), ribbon = box.querySelector(".ribbon");
  const answer = await fetch(`${root}/api/topics/${encodeURIComponent(topic)}/story`);
  let lines = (await answer.json()).items ?? [], drawn = null;
  const draw = () => {
    drawn = bars(lanesOf(lines), lines, topic);
    box.querySelector(".lanes").replaceChildren(drawn.root);
    slider.max = String(Math.max(0, lines.length - 1));
  };
  const show = () => {
    const place = Number(slider.value), line = lines[place];
    if (!line) return;
    const words = `${FORMATS.clock(line.time_ms)}  ${line.id}  ${line.subject}: ${line.before} → ${line.after}, ${line.cause}`;
    slider.setAttribute("aria-valuetext", FORMATS.shown(words));
    now.textContent = FORMATS.shown(words);
    drawn.move(place);
    const old = place < lines.length - 1;
    ribbon.hidden = !old;
    box.querySelector(".then").hidden = !old;
    if (old) {
      const found = states(lines, place), parts = [...found].filter(([subject]) => / on broker /.test(subject));
      const counts = {};
      for (const [, state] of parts) counts[state] = (counts[state] ?? 0) + 1;
      const told = Object.entries(counts).map(([state, count]) => `${count} ${state}`).join(", ");
      box.querySelector(".then").replaceChildren(...matrixAt(found, topic));
      ribbon.replaceChildren(`You see ${FORMATS.clock(line.time_ms)}: topic ${found.get(`topic ${topic}`) ?? "unknown"}; replicas: ${told || "none"}. `, h("button", { type: "button", class: "quiet", onclick: () => go(lines.length - 1) }, "Back to now"));
    }
    for (const row of document.querySelectorAll("table.lines tr[data-now]")) row.removeAttribute("data-now");
    document.getElementById(`line-${line.id}`)?.setAttribute("data-now", "");
    const url = new URL(location.href);
    if (old) url.searchParams.set("at", line.id);
    else url.searchParams.delete("at");
    history.replaceState(null, "", url);
  };
  const go = (place) => { slider.value = String(Math.min(lines.length - 1, Math.max(0, place))); show(); };
  const step = (kind) => {
    const place = Number(slider.value), way = kind.startsWith("-") ? -1 : 1;
    let next = place + way;
    if (kind.endsWith("cause")) while (lines[next] && lines[next].cause === lines[place].cause && lines[next].time_ms === lines[place].time_ms) next += way;
    go(next);
  };
  const play = box.querySelector(".play");
  let playing = 0;
  const rest = () => { clearInterval(playing); playing = 0; play.textContent = "Play"; play.setAttribute("aria-pressed", "false"); };
  play.addEventListener("click", () => {
    if (playing) { rest(); return; }
    if (Number(slider.value) >= lines.length - 1) go(0);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    playing = setInterval(() => { if (Number(slider.value) >= lines.length - 1) rest(); else step("cause"); }, 700);
  });
  slider.addEventListener("input", show);
  box.addEventListener("click", (event) => { const kind = event.target.closest("[data-step]")?.dataset.step; if (kind) step(kind); });
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && !event.target.closest("input, textarea, dialog, button, a, select, summary")) { event.preventDefault(); play.click(); return; }
    const way = { ArrowLeft: "-", ArrowRight: "" }[event.key];
    if (way === undefined || event.target.closest("input, textarea, dialog, table")) return;
    event.preventDefault();
    step(event.shiftKey ? `${way}cause` : `${way}1`);
  });
  draw();
  const at = lines.findIndex((line) => line.id === box.dataset.at);
  go(at >= 0 ? at : lines.length - 1);
  watch(`/api/topics/${encodeURIComponent(topic)}`, (values) => {
    if (values.problem) return;
    const known = new Set(lines.map((line) => line.id)), isLast = Number(slider.value) === lines.length - 1;
    const fresh = values.lines.filter((line) => !known.has(line.id)).reverse();
    if (!fresh.length) return;
    lines = [...lines, ...fresh].slice(-10000);
    draw();
    go(isLast ? lines.length - 1 : Number(slider.value));
  });
}
