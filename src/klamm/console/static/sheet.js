// The plan sheet: what a button would do, before it is done. The server makes the plan.

import { h, root, toast } from "./dom.js";
import { FORMATS } from "./formats.js";

const token = document.querySelector('meta[name="klamm-token"]').content;
const dialog = document.querySelector("dialog.sheet");
let asked = 0, timer = 0;

export async function post(path, body, more = {}) {
  const headers = { "content-type": "application/json", "x-klamm-token": token, ...more };
  const answer = await fetch(root + path, { method: "POST", headers, body: JSON.stringify(body) });
  const told = await answer.json();
  return { ok: answer.ok, status: answer.status, told };
}

function input(field, value, change) {
  const common = { name: field.name, id: `f-${field.name}`, "aria-describedby": `e-${field.name}`, oninput: change };
  if (field.kind === "choice") return h("select", common, ...field.choices.map((each) => h("option", { selected: each === value }, each)));
  if (field.kind === "flag") return h("input", { ...common, type: "checkbox", checked: Boolean(value) });
  if (field.kind === "long") return h("textarea", { ...common, rows: 3 }, value ?? "");
  const text = Array.isArray(value) ? value.join(" ") : value ?? "";
  return h("input", { ...common, type: field.kind === "number" ? "number" : "text", value: String(text), autocomplete: "off" });
}

function fields(told, fixed, change) {
  const open = told.fields.filter((field) => !Object.hasOwn(fixed, field.name));
  return open.map((field) => h("label", { class: "field" }, field.label, field.about ? h("span", { class: "dim" }, ` ${field.about}`) : null,
    input(field, told.given[field.name] ?? field.default, change), h("span", { class: "fault", id: `e-${field.name}` })));
}

function read(form, fixed) {
  const body = { ...fixed };
  for (const each of form.querySelectorAll("[name]")) {
    if (each.name === "typed") continue;
    body[each.name] = each.type === "checkbox" ? each.checked : each.value;
  }
  return body;
}

function table(told) {
  if (!told) return null;
  const head = h("thead", {}, h("tr", {}, ...told.columns.map((name) => h("th", { scope: "col" }, name))));
  const body = h("tbody", {}, ...told.rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, typeof cell === "number" ? FORMATS.number(cell) : FORMATS.shown(cell))))));
  return h("div", { class: "scroll" }, h("table", { class: "list" }, head, body));
}

function planned(plan) {
  const steps = plan.steps.map((step) => [h("dt", {}, FORMATS.shown(step.label)), h("dd", {}, FORMATS.shown(step.text))]).flat();
  return [
    plan.derived ? h("p", { class: "dim" }, "Derived: this cluster makes no plans.") : null,
    h("dl", { class: "steps" }, ...steps),
    table(plan.table),
    ...plan.warnings.map((text) => h("p", { class: "warn" }, FORMATS.shown(text))),
    ...plan.refused.map((text) => h("p", { class: "fault" }, FORMATS.shown(text))),
  ];
}

function shell(title) {
  dialog.replaceChildren(
    h("form", { method: "dialog" },
      h("h2", { id: "sheet-title" }, FORMATS.shown(title)),
      h("div", { class: "fields" }),
      h("div", { class: "plan", role: "status" }, h("p", { class: "dim" }, "Asking for the plan…")),
      h("label", { class: "typed", hidden: true }),
      h("p", { class: "twin" }),
      h("div", { class: "acts" }, h("button", { type: "button", class: "cancel", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "button", class: "first do", disabled: true }, "…"))));
  const form = dialog.querySelector("form");
  form.addEventListener("submit", (event) => event.preventDefault()); // Enter never confirms
  return form;
}

async function ask(form, state) {
  const turn = ++asked;
  const body = { ...(state.drawn ? {} : state.fill), ...read(form, state.fixed) };
  const { ok, told } = await post("/api/plans", body);
  if (turn !== asked) return;
  if (!ok) { form.querySelector(".plan").replaceChildren(h("p", { class: "fault" }, FORMATS.shown(told.detail))); return; }
  if (!state.drawn) {
    form.querySelector(".fields").replaceChildren(...fields(told, state.fixed, () => { clearTimeout(timer); timer = setTimeout(() => ask(form, state), 300); }));
    state.drawn = true;
    const first = form.querySelector(".fields [name]");
    if (first) { first.focus(); if (told.wrong.length && Object.keys(read(form, {})).length) { ask(form, state); return; } }
  }
  show(form, state, told);
}

function show(form, state, told) {
  for (const place of form.querySelectorAll(".field .fault")) place.textContent = "";
  for (const each of told.wrong) {
    const place = form.querySelector(`#e-${CSS.escape(each.field)}`);
    if (place && !each.missing) place.textContent = each.message;
  }
  const button = form.querySelector(".do"), typed = form.querySelector(".typed");
  state.digest = told.digest;
  form.querySelector(".plan").replaceChildren(...(told.plan ? planned(told.plan).filter(Boolean) : [h("p", { class: "dim" }, "Fill in the fields to see the plan.")]));
  form.querySelector(".twin").replaceChildren(...(told.twin ? ["$ ", h("code", {}, told.twin), " ", h("button", { type: "button", class: "quiet", "data-copy": told.twin }, "Copy")] : []));
  button.textContent = told.plan ? FORMATS.shown(told.plan.button) : told.title;
  const refused = !told.plan || told.plan.refused.length > 0;
  const needs = told.plan?.typed ?? null;
  if (needs !== state.needs) {
    state.needs = needs;
    typed.hidden = needs === null;
    typed.replaceChildren(...(needs === null ? [] : ["Type ", h("code", {}, FORMATS.shown(needs)), " to go on", h("input", { name: "typed", autocomplete: "off", spellcheck: "false", oninput: () => ready() })]));
  }
  const ready = () => { button.disabled = refused || (needs !== null && typed.querySelector("input").value !== needs); };
  ready();
  button.onclick = () => act(form, state, told);
}

async function act(form, state, told) {
  const button = form.querySelector(".do");
  button.disabled = true;
  const typed = form.querySelector("[name=typed]")?.value;
  const body = { ...read(form, state.fixed), digest: state.digest, typed };
  const { ok, status, told: answer } = await post("/api/actions", body, { "idempotency-key": crypto.randomUUID() });
  if (ok) {
    dialog.close();
    toast(FORMATS.shown(answer.done));
    dispatchEvent(new CustomEvent("klamm-done", { detail: answer }));
  } else if (status === 409 && answer.plan) {
    show(form, state, { ...told, plan: answer.plan, digest: answer.digest });
    form.querySelector(".plan").prepend(h("p", { class: "warn" }, "The plan has changed; look again."));
  } else {
    form.querySelector(".plan").prepend(h("p", { class: "fault", role: "alert" }, FORMATS.shown(answer.detail)));
  }
}

export function open({ fill = {}, ...deed }) {
  const form = shell(deed.title ?? "");
  dialog.showModal();
  form.querySelector(".cancel").focus();
  ask(form, { fixed: deed, fill, drawn: false, digest: null, needs: undefined }).then(() => {
    const heading = form.querySelector("h2");
    if (!heading.textContent) heading.textContent = form.querySelector(".do").textContent;
  });
}

export function sheets() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-deed]");
    if (button) open(JSON.parse(button.dataset.json));
    const again = event.target.closest("[data-again]");
    if (again) open({ kind: "produce", topic: again.closest("table").dataset.topic, fill: JSON.parse(again.dataset.json) });
  });
}
