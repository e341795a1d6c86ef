// One stream for all tabs: a browser opens only six connections to a host, and a stream keeps one.
// Runs as a SharedWorker, or as a module inside a page where there is none.

const root = new URL(import.meta.url).pathname.split("/static/")[0];
const ports = new Map(); // port -> wishes
let source = null, wanted = "", last = new Map(), timer = 0;

function union() {
  return [...new Set([...ports.values()].flat())].sort().slice(0, 20);
}

function tell(message) {
  for (const port of ports.keys()) port.postMessage(message);
}

function open() {
  const wishes = union();
  const query = wishes.map((wish) => `want=${encodeURIComponent(wish)}`).join("&");
  if (query === wanted && source && source.readyState !== 2) return;
  wanted = query;
  if (source) source.close();
  source = null;
  if (!wishes.length) return;
  last = new Map([...last].filter(([wish]) => wishes.includes(wish)));
  source = new EventSource(`${root}/api/events?${query}`);
  source.onopen = () => tell({ event: "live", data: true });
  source.onerror = () => {
    tell({ event: "live", data: false });
    // What is closed for good (the server is gone or says no) is tried again now and then.
    if (source && source.readyState === 2) { clearTimeout(timer); timer = setTimeout(open, 2000); }
  };
  for (const event of ["view", "pulse", "bye"]) {
    source.addEventListener(event, (message) => {
      const data = JSON.parse(message.data);
      if (event === "view" && data.whole !== undefined) last.set(data.want, data);
      else if (event === "view") last.delete(data.want);
      tell({ event, data });
      if (event === "bye") { source.close(); source = null; wanted = ""; }
    });
  }
}

export function join(port) {
  ports.set(port, []);
  port.onmessage = ({ data }) => {
    if (data.leave) ports.delete(port);
    else {
      ports.set(port, data.wishes);
      // A tab that joins needs the whole; a stream that is open already does not send it again.
      if (data.wishes.some((wish) => wanted.includes(encodeURIComponent(wish)))) wanted = "";
    }
    open();
  };
  if (port.start) port.start();
}

if (typeof SharedWorkerGlobalScope !== "undefined" && self instanceof SharedWorkerGlobalScope) {
  self.onconnect = (event) => join(event.ports[0]);
}
