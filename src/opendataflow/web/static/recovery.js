// A tick makes the plan anew, at its own address, without losing the reason that somebody typed.
import { swap } from "./live.js";

let turn = 0;

async function again(form) {
  const mine = (turn += 1);
  const boxes = [...form.querySelectorAll("input[name=cause]")];
  const ticked = boxes.filter((box) => box.checked);
  const query = new URLSearchParams(ticked.map((box) => ["cause", box.value]));
  if (!ticked.length) query.append("cause", "none");
  const address = ticked.length === boxes.length ? "/recovery" : `/recovery?${query}`;
  const focused = document.activeElement?.id;
  const answer = await fetch(address, { headers: { "x-odf-live": "1" }, credentials: "same-origin" });
  if (mine !== turn) return;
  if (!answer.ok || answer.redirected) {
    location.assign(address);
    return;
  }
  history.replaceState(null, "", address);
  document.activeElement?.blur();
  swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

document.documentElement.classList.add("scripts");
document.addEventListener("change", (event) => {
  const form = event.target.closest("#choose");
  if (form) again(form);
});
document.getElementById("start")?.addEventListener("submit", (event) => {
  // Once is enough: a second click finds the button asleep.
  setTimeout(() => event.target.querySelector("button")?.setAttribute("disabled", ""), 0);
});
