// Light, dark, or as the system has it.

import { $ } from "./dom.js";

const ORDER = ["auto", "light", "dark"];
const GLYPHS = { auto: "◐", light: "○", dark: "●" };
const SPOKEN = { auto: "as the system", light: "light", dark: "dark" };
let chosen = "auto", changed = () => {};

export function begin(onChange) {
  changed = onChange;
  try { chosen = localStorage.getItem("theme") ?? "auto"; } catch { /* not allowed to remember */ }
  if (!ORDER.includes(chosen)) chosen = "auto";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  $("theme").addEventListener("click", next);
  show();
}

export function next() {
  chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
  try { localStorage.setItem("theme", chosen); } catch { /* not allowed to remember */ }
  show();
}

function show() {
  const isDark = chosen === "dark" || (chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").textContent = GLYPHS[chosen];
  $("theme").setAttribute("aria-label", `Colours: ${SPOKEN[chosen]}`);
  changed();
}
