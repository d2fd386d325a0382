// A tick makes the plan anew, at its own address, without losing the reason that somebody typed.
import { swap } from "./live.js";

let turn = 0;

const boxes = () => [...document.querySelectorAll("#causes input[name=cause]")];
const ticked = () => boxes().filter((box) => box.checked).map((box) => box.value);

function address() {
  const chosen = ticked();
  if (chosen.length === boxes().length) return "/recovery";
  return `/recovery?${new URLSearchParams((chosen.length ? chosen : ["none"]).map((each) => ["cause", each]))}`;
}

async function again(path) {
  const mine = (turn += 1);
  const focused = document.activeElement?.closest("#causes") ? document.activeElement.id : "";
  history.replaceState(null, "", path); // what is live looks there from now on
  const answer = await fetch(path, { headers: { "x-odf-live": "1" }, credentials: "same-origin" });
  const text = await answer.text();
  if (mine !== turn) return;
  if (!answer.ok || answer.redirected) {
    location.assign(path);
    return;
  }
  if (focused) document.activeElement?.blur();
  swap(new DOMParser().parseFromString(text, "text/html"));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

document.documentElement.classList.add("scripts");
document.addEventListener("change", (event) => {
  if (event.target.closest("#choose")) again(address());
});
document.addEventListener("swapped", (event) => {
  // An answer that was under way when somebody ticked shows ticks of before.
  const named = new URLSearchParams(location.search).getAll("cause");
  const isOld = named.length ? ticked().some((each) => !named.includes(each)) : ticked().length !== boxes().length;
  const areIds = named.every((each) => /^(c[0-9a-f]{10}|none)$/.test(each));
  if (event.target.id === "causes" && isOld && areIds) again(location.pathname + location.search);
});
document.getElementById("start")?.addEventListener("submit", (event) => {
  // Once is enough: a second click finds the button asleep.
  setTimeout(() => event.target.querySelector("button")?.setAttribute("disabled", ""), 0);
});
