// Zoom and pan: only the viewBox changes. A click on a box shows its chunks without losing the place.
import { refresh, swap } from "./live.js";

const LEAST = 0.03;
const MOST = 3;
const canvas = document.getElementById("canvas");
let view = null; // x, y of the upper left corner, and scale: pixels of the screen for one of the drawing

const svg = () => canvas.querySelector("svg");
const frame = () => document.getElementById("graph").getBoundingClientRect();

function whole() {
  const drawn = svg();
  const [x, y, width, height] = (drawn.dataset.whole ||= drawn.getAttribute("viewBox")).split(" ").map(Number);
  return { x, y, width, height };
}

function apply() {
  const { width, height } = frame();
  svg().setAttribute("viewBox", `${view.x} ${view.y} ${width / view.scale} ${height / view.scale}`);
}

function wholeScale() {
  const all = whole();
  const { width, height } = frame();
  return Math.min(width / all.width, height / all.height, 1);
}

function clamp() {
  const all = whole();
  const { width, height } = frame();
  const [wide, high] = [width / view.scale, height / view.scale];
  const inside = (at, from, size, seen) =>
    seen >= size ? from + (size - seen) / 2 : Math.min(Math.max(at, from), from + size - seen);
  view.x = inside(view.x, all.x, all.width, wide);
  view.y = inside(view.y, all.y, all.height, high);
}

function fit(least = LEAST) {
  const all = whole();
  const { width, height } = frame();
  view = { x: all.x, y: all.y, scale: Math.max(Math.min(width / all.width, height / all.height, 1.15), least) };
  clamp();
  apply();
}

function zoom(factor, at) {
  const box = frame();
  const [px, py] = at ? [at.x - box.left, at.y - box.top] : [box.width / 2, box.height / 2];
  const scale = Math.min(Math.max(view.scale * factor, wholeScale()), MOST);
  view = { x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale, scale };
  clamp();
  apply();
}

function pan(dx, dy) {
  view.x -= dx / view.scale;
  view.y -= dy / view.scale;
  clamp();
  apply();
}

function show(element, margin = 60) {
  const [seen, box] = [frame(), element.getBoundingClientRect()];
  const off = (low, high, from, to) => (low < from + margin ? from + margin - low : high > to - margin ? to - margin - high : 0);
  const [dx, dy] = [off(box.left, box.right, seen.left, seen.right), off(box.top, box.bottom, seen.top, seen.bottom)];
  if (dx || dy) pan(dx, dy);
}

function begin() {
  canvas.classList.add("zooms");
  document.getElementById("zoom").hidden = false;
  const all = whole();
  const least = svg().classList.contains("map") ? LEAST : 0.8;
  const wished = Math.max(Math.min(frame().width / all.width, 1.15), least) * all.height + 24;
  canvas.style.setProperty("--tall", `${Math.ceil(Math.max(wished, 0)) + 2}px`);
  fit(least);
  const first = canvas.querySelector(".box.chosen") || canvas.querySelector(".box.is-FAILED, .box.is-BROKEN");
  if (first) show(first);
}

// Pointers: one drags, two pinch.
const pointers = new Map();
let moved = 0;

function middle() {
  const all = [...pointers.values()];
  const x = all.reduce((sum, each) => sum + each.x, 0) / all.length;
  const y = all.reduce((sum, each) => sum + each.y, 0) / all.length;
  return { x, y, apart: all.length > 1 ? Math.hypot(all[0].x - all[1].x, all[0].y - all[1].y) : 0 };
}

function listen() {
  canvas.addEventListener("wheel", (event) => {
    if (view.scale <= wholeScale() * 1.01 && event.deltaY > 0 && !event.ctrlKey) return; // nothing to zoom out of: the page scrolls on
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(-(event.deltaX || event.deltaY), 0);
    else zoom(Math.exp(-event.deltaY / (event.ctrlKey ? 150 : 400)), { x: event.clientX, y: event.clientY });
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    if (!pointers.size) moved = 0;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = middle();
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const after = middle();
    moved += Math.hypot(after.x - before.x, after.y - before.y) + Math.abs(after.apart - before.apart);
    if (moved < 4) return;
    canvas.classList.add("moves");
    pan(after.x - before.x, after.y - before.y);
    if (before.apart && after.apart) zoom(after.apart / before.apart, after);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      if (!pointers.size) canvas.classList.remove("moves");
    });
  }
  canvas.addEventListener("dragstart", (event) => event.preventDefault());
  document.getElementById("zoom").addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-zoom]");
    if (pressed) ({ in: () => zoom(1.4), out: () => zoom(1 / 1.4), fit: () => fit() })[pressed.dataset.zoom]();
  });
  canvas.addEventListener("click", (event) => {
    if (moved >= 4) {
      moved = 0;
      return event.preventDefault();
    }
    const box = event.target.closest("a.box");
    if (!box || box.classList.contains("version") || event.ctrlKey || event.metaKey || event.shiftKey) return undefined;
    event.preventDefault();
    return choose(box.getAttribute("href"), box);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 80;
    const keys = {
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(),
      ArrowLeft: () => pan(step, 0), ArrowRight: () => pan(-step, 0), ArrowUp: () => pan(0, step), ArrowDown: () => pan(0, -step),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("focusin", (event) => event.target.matches("a") && !pointers.size && show(event.target));
  document.addEventListener("swapped", (event) => {
    if (event.target.id === "again") later();
    if (event.target.id !== "graph") return;
    whole();
    clamp();
    apply();
  });
  addEventListener("resize", () => view && (clamp(), apply()));
  addEventListener("popstate", () => location.reload());
}

// What is a moment old looks again by itself.
let timer = 0;

function later() {
  clearTimeout(timer);
  const seconds = Number(document.getElementById("again")?.dataset.after || 0);
  if (seconds > 0) timer = setTimeout(refresh, seconds * 1000 + 200);
}

async function choose(address) {
  const answer = await fetch(address, { headers: { "x-odf-live": "1" }, credentials: "same-origin" });
  if (!answer.ok || answer.redirected) return location.assign(address);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  history.pushState(null, "", address);
  document.title = fresh.title;
  document.getElementById("flow").className = fresh.getElementById("flow").className;
  swap(fresh);
  clamp();
  apply();
  const chosen = canvas.querySelector(".box.chosen");
  if (chosen) {
    chosen.focus({ preventScroll: true });
    show(chosen);
  }
  return undefined;
}

if (canvas && svg()) {
  begin();
  listen();
  later();
}
