// Elements that stay bound to values. Text is set as text and never read as markup.

import { FORMATS } from "./formats.js";

// Stands before every address where one console shows several clusters.
export const root = document.body?.dataset.root ?? "";

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function at(item, path) {
  let value = item;
  for (const part of path ? path.split(".") : []) {
    if (value === null || typeof value !== "object") return undefined;
    value = Object.hasOwn(value, part) ? value[part] : undefined;
  }
  return value;
}

function filled(item, pattern) {
  return pattern.replace(/\{([^}]*)\}/g, (_, name) => encodeURIComponent(String(at(item, name) ?? "").toWellFormed()));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function textOf(element, item) {
  const [path, form] = element.dataset.t.split("|");
  const value = at(item, path);
  const format = FORMATS[form || "shown"];
  write(element, format(value));
  if (form === "age") element.dataset.ms = value ?? "";
}

function attributesOf(element, item) {
  for (const binding of element.dataset.b.split(";")) {
    const colon = binding.indexOf(":");
    const name = binding.slice(0, colon), path = binding.slice(colon + 1);
    let value = path.startsWith("=") ? filled(item, path.slice(1)) : at(item, path.replace(/\|json$/, ""));
    if (path.endsWith("|json")) value = JSON.stringify(value ?? null);
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else {
      const text = value === true ? "" : FORMATS.shown(value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
}

function truthy(value) {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

// Rows of a list: each keeps its element as long as its id is there.
function rowsOf(element, items) {
  const template = element.querySelector(":scope > template");
  if (!template || !Array.isArray(items)) return;
  const kept = new Map();
  for (const row of element.children) if (row !== template && row.dataset.id !== undefined) kept.set(row.dataset.id, row);
  if (kept.size === 0) for (const row of [...element.children]) if (row !== template) row.remove();
  let before = template;
  for (const item of items) {
    const id = String(item.id);
    let row = kept.get(id);
    kept.delete(id);
    if (!row) {
      row = template.content.firstElementChild.cloneNode(true);
      row.dataset.id = id;
    }
    fill(row, item);
    if (before.nextElementSibling !== row) before.after(row);
    before = row;
  }
  for (const row of kept.values()) row.remove();
}

// Puts values into an element and all that is bound below it, but not into other lists' rows.
export function fill(root, item) {
  const visit = (element) => {
    if (element.dataset.t !== undefined) textOf(element, item);
    if (element.dataset.b !== undefined) attributesOf(element, item);
    if (element.dataset.if !== undefined) element.hidden = !truthy(at(item, element.dataset.if));
    if (element.dataset.unless !== undefined) element.hidden = truthy(at(item, element.dataset.unless));
    if (element.dataset.each !== undefined) {
      rowsOf(element, at(item, element.dataset.each));
      return;
    }
    if (element.dataset.want !== undefined && element !== root) return;
    for (const child of element.children) if (child.tagName !== "TEMPLATE") visit(child);
  };
  visit(root);
}

export function tick() {
  for (const element of document.querySelectorAll("[data-ms]")) {
    if (element.dataset.ms !== "") write(element, FORMATS.age(Number(element.dataset.ms)));
  }
}

let toasting = 0;
export function toast(text) {
  const place = document.querySelector(".toast");
  place.textContent = text;
  place.hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => { place.hidden = true; }, 5000);
}
