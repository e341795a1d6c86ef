// One square a partition, one block a topic, the ill ones first. Health is pale and small.

import { root } from "./dom.js";
import { watch } from "./live.js";

const STEP = 7, SMALL = 5, ACROSS = 10, GAP = 8;
const WORDS = { "!": "cannot be removed", x: "offline", "-": "being removed", "~": "behind", "+": "new", o: "removed", ".": "in sync" };

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = { "!": "cannot", x: "offline", "-": "leaving", "~": "behind", "+": "new", o: "removed", ".": "insync" };
  return Object.fromEntries(Object.entries(names).map(([code, name]) => [code, style.getPropertyValue(`--cell-${name}`).trim()]));
}

function layout(items, width) {
  const places = [];
  let x = 0, y = 0, tall = 0;
  for (const item of items) {
    const across = Math.min(ACROSS, item.squares.length || 1);
    const down = Math.ceil(item.squares.length / ACROSS) || 1;
    const wide = across * STEP;
    if (x && x + wide > width) { x = 0; y += tall + GAP; tall = 0; }
    places.push({ item, x, y, wide, high: down * STEP });
    tall = Math.max(tall, down * STEP);
    x += wide + GAP;
  }
  return { places, height: y + tall };
}

function draw(canvas, drawing) {
  const context = canvas.getContext("2d");
  const scale = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = drawing.height * scale;
  canvas.style.setProperty("height", `${drawing.height}px`);
  context.scale(scale, scale);
  const fill = colours();
  for (const { item, x, y } of drawing.places) {
    for (let n = 0; n < item.squares.length; n += 1) {
      const code = item.squares[n], side = code === "." ? SMALL : STEP - 1;
      const off = (STEP - 1 - side) / 2;
      context.fillStyle = fill[code] ?? fill["."];
      context.fillRect(x + (n % ACROSS) * STEP + off, y + Math.floor(n / ACROSS) * STEP + off, side, side);
    }
  }
}

function under(drawing, x, y) {
  for (const place of drawing.places) {
    const column = Math.floor((x - place.x) / STEP), line = Math.floor((y - place.y) / STEP);
    const n = line * ACROSS + column;
    if (column >= 0 && column < ACROSS && line >= 0 && n < place.item.squares.length) return { topic: place.item.id, partition: n, code: place.item.squares[n] };
  }
  return null;
}

export function squares() {
  const box = document.querySelector(".squares");
  if (!box) return;
  const canvas = box.querySelector("canvas"), words = box.querySelector(".under");
  let drawing = { places: [], height: 0 }, cursor = -1;
  const redraw = (values) => {
    const narrow = innerWidth < 700;
    const ill = values.items.filter((item) => /[^.]/.test(item.squares));
    const items = narrow ? ill : values.items;
    drawing = layout(items, canvas.clientWidth);
    draw(canvas, drawing);
    const rest = values.total - items.length;
    words.textContent = `${ill.length} of ${values.total} topics have something to show${rest ? `, ${rest} are not drawn` : ""}.`;
  };
  let last = null;
  watch(box.dataset.want, (values) => { last = values; redraw(values); });
  addEventListener("resize", () => last && redraw(last));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => last && redraw(last));
  const say = (found) => { if (found) words.textContent = `${found.topic}-${found.partition}: ${WORDS[found.code] ?? "in sync"}`; };
  canvas.addEventListener("mousemove", (event) => say(under(drawing, event.offsetX, event.offsetY)));
  canvas.addEventListener("click", (event) => { const found = under(drawing, event.offsetX, event.offsetY); if (found) location.assign(`${root}/topics/${encodeURIComponent(found.topic)}`); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      cursor = Math.min(drawing.places.length - 1, Math.max(0, cursor + step));
      const place = drawing.places[cursor];
      if (place) words.textContent = `${place.item.id}: ${place.item.squares.length} partitions`;
      event.preventDefault();
    } else if (event.key === "Enter" && drawing.places[cursor]) location.assign(`${root}/topics/${encodeURIComponent(drawing.places[cursor].item.id)}`);
  });
}
