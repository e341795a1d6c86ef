// What is on a page is pushed to it. A wish is the address of a view's JSON.

import { root } from "./dom.js";
import { join } from "./hub.js";
import { patched } from "./patch.js";

const views = new Map(); // wish -> {rev, value, calls}
const pulses = [];
const ASK_MS = 5000;
let port = null, asking = 0;

function connect() {
  if (typeof SharedWorker !== "undefined") {
    const url = new URL("./hub.js", import.meta.url).href;
    const policy = window.trustedTypes?.createPolicy("klamm", {
      createScriptURL: (text) => { if (text !== url) throw new TypeError("another worker"); return text; },
    });
    const worker = new SharedWorker(policy ? policy.createScriptURL(url) : url, { type: "module", name: "klamm" });
    return worker.port;
  }
  const { port1, port2 } = new MessageChannel();
  join(port2);
  document.addEventListener("visibilitychange", () => (document.hidden ? port1.postMessage({ wishes: [] }) : want()));
  return port1;
}

function want() {
  port.postMessage({ wishes: [...views.keys()] });
}

async function whole(wish, view) {
  const answer = await fetch(root + wish, { headers: { accept: "application/json" } });
  if (answer.ok) take(view, await answer.json());
}

function take(view, value) {
  const before = view.value;
  view.value = value;
  for (const call of view.calls) call(value, before);
}

// Where there is no stream, because the console is away or has too many, what is shown is asked for.
function ask(isLive) {
  if (isLive) { clearInterval(asking); asking = 0; }
  else if (!asking) asking = setInterval(() => {
    if (document.hidden) return;
    for (const [wish, view] of views) whole(wish, view).catch(() => { /* it is away */ });
  }, ASK_MS);
}

function heard({ event, data }) {
  if (event === "live") {
    const badge = document.querySelector(".live");
    badge.dataset.live = data ? "on" : "off";
    badge.textContent = data ? "live" : "not live, trying again";
    ask(data);
  } else if (event === "pulse") for (const call of pulses) call(data);
  else if (event === "bye") location.assign(`${root}/sign-in`);
  else {
    const view = views.get(data.want);
    if (!view) return;
    if (data.whole !== undefined) { view.rev = data.rev; take(view, data.whole); }
    else if (data.rev === view.rev + 1) { view.rev = data.rev; take(view, patched(view.value, data.change)); }
    else if (data.rev > view.rev) { view.rev = data.rev; whole(data.want, view); }
  }
}

// Has `call` called with the values of a view, now and whenever they change.
export function watch(wish, call) {
  if (!views.has(wish)) views.set(wish, { rev: 0, value: null, calls: [] });
  views.get(wish).calls.push(call);
  if (port) want();
}

export function onPulse(call) {
  pulses.push(call);
}

export function start() {
  if (!views.size) watch("/api/waits?limit=1", () => {});
  port = connect();
  port.onmessage = (message) => heard(message.data);
  if (port.start) port.start();
  want();
  addEventListener("pagehide", () => port.postMessage({ leave: true }));
  addEventListener("pageshow", (event) => { if (event.persisted) { for (const view of views.values()) view.rev = 0; want(); } });
}
