// Numbers, sizes, ages and times as people read them; klamm/console/formats.py does the same.

const NONE = "–";
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

export function shown(value) {
  if (value === null || value === undefined) return NONE;
  return String(value).replace(hidden, (char) => {
    const code = char.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

export function block(value) {
  return typeof value === "string" ? value.split("\n").map(shown).join("\n") : shown(value);
}

export function number(value) {
  if (value === null || value === undefined) return NONE;
  if (!Number.isInteger(value) && value > 0 && value < 10) return value.toFixed(1);
  return Math.round(value).toLocaleString("en-US");
}

export function size(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let left = value, unit = 0;
  while (left >= 1000 && unit < units.length - 1) { left /= 1000; unit += 1; }
  return `${left >= 100 || unit === 0 ? left.toFixed(0) : left.toFixed(1)} ${units[unit]}`;
}

export function age(value) {
  if (value === null || value === undefined) return NONE;
  const seconds = Math.max(0, (Date.now() - value) / 1000);
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

export function clock(value) {
  if (value === null || value === undefined) return NONE;
  return new Date(value).toTimeString().slice(0, 8);
}

export function percent(value) {
  return value === null || value === undefined ? NONE : `${(value * 100).toFixed(1)} %`;
}

export const FORMATS = { shown, block, number, size, age, clock, percent };
