// The overview: arrow keys walk through the matrix, the dial has buttons, and what is a moment old looks again by itself.
import { refresh } from "./live.js";

const scrolled = new Map();
let place = null;
let timer = 0;

const boxes = () => [...document.querySelectorAll(".heat")];
const cells = (box) => [...box.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td:not(.sum)")].map((cell) => cell.querySelector("a")));

// Where there is no room for all columns, the newest are in sight; of a range that somebody named, the first.
function newest(box) {
  if (/[?&](from|to)=./.test(location.search)) return 0;
  const last = [...box.querySelectorAll("tbody tr:first-child td:not(.sum)")].pop();
  return last ? Math.max(last.offsetLeft + last.offsetWidth - box.clientWidth + 4, 0) : 0;
}

// One stop for the tabulator in each table; the arrow keys do the rest.
function settle() {
  for (const box of boxes()) {
    box.querySelectorAll("tbody td a").forEach((link, n) => link.setAttribute("tabindex", n ? "-1" : "0"));
    box.scrollLeft = scrolled.get(box.id) ?? newest(box);
    box.addEventListener("scroll", () => scrolled.set(box.id, box.scrollLeft), { passive: true });
  }
  for (const form of document.querySelectorAll(".dial")) {
    for (const button of form.querySelectorAll(".less, .more")) button.hidden = false;
  }
}

function later() {
  clearTimeout(timer);
  const seconds = Number(document.getElementById("again")?.dataset.after || 0);
  if (seconds > 0) timer = setTimeout(refresh, seconds * 1000 + 200);
}

function go(link) {
  if (!link) return false;
  const box = link.closest(".heat");
  box.querySelector('tbody td a[tabindex="0"]')?.setAttribute("tabindex", "-1");
  link.setAttribute("tabindex", "0");
  link.focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  const link = event.target.closest?.(".heat tbody td a");
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!link || !step || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = cells(link.closest(".heat"));
  let row = rows.findIndex((each) => each.includes(link));
  let column = rows[row].indexOf(link);
  event.preventDefault();
  do {
    row += step[0];
    column += step[1];
  } while (rows[row] && column >= 0 && column < rows[row].length && !rows[row][column]);
  go(rows[row]?.[column]);
});

document.addEventListener("focusin", (event) => {
  const link = event.target.closest?.(".heat tbody td a");
  if (!link) {
    place = null;
    return;
  }
  const box = link.closest(".heat");
  const rows = cells(box);
  const row = rows.findIndex((each) => each.includes(link));
  place = { box: box.id, row, column: rows[row].indexOf(link) };
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".dial .less, .dial .more");
  if (!button) return;
  const input = button.form.elements.slots;
  const now = /^\d+$/.test(input.value) ? Number(input.value) : 1;
  input.value = String(Math.max(now + (button.matches(".more") ? 1 : -1), 0));
  input.focus();
});

document.addEventListener("swapped", (event) => {
  if (event.target.id === "again") later();
  if (event.target.id !== "matrix" && event.target.id !== "pools") return;
  const was = place;
  settle();
  if (event.target.id === "matrix" && was && document.activeElement === document.body) {
    const box = document.getElementById(was.box);
    go(box && cells(box)[was.row]?.[was.column]);
  }
});

// Filters that say nothing do not make the address longer.
document.querySelector("form.filters")?.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (!value.trim()) event.formData.delete(name);
});

settle();
later();
