// Moments go on while nothing changes: every second the words of elements that carry one are made true again, in the words of
// the server. While a page shows something that runs, it is fetched again from time to time: what no event tells moves too.
import { refresh } from "./live.js";

const EVERY = 10000;
const MOVES = ["[data-since]", "[data-until]", "[data-moving]"].map((each) => `[data-live] ${each}, ${each}[data-live]`).join(", ");
// By how much the clock of this machine is ahead of the server's.
const ahead = Date.now() - (Date.parse(document.body.dataset.now) || Date.now());

function duration(seconds) {
  if (seconds < 90) return `${Math.max(seconds, 0).toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function ago(seconds) {
  if (seconds < 0) return `in ${duration(-seconds)}`;
  return seconds < 48 * 3600 ? `${duration(seconds)} ago` : `${(seconds / 86400).toFixed(0)} days ago`;
}

function tick() {
  if (document.hidden) return;
  const now = Date.now() - ahead;
  for (const element of document.querySelectorAll("time[data-ago], [data-since], [data-until]")) {
    const { since, until } = element.dataset;
    const seconds = (now - Date.parse(since || until || element.dateTime)) / 1000;
    if (Number.isNaN(seconds)) continue;
    const words = since ? duration(seconds) : until ? duration(-seconds) : ago(seconds);
    if (element.textContent !== words) element.textContent = words;
  }
}

setInterval(tick, 1000);
setInterval(() => document.querySelector(MOVES) && refresh(), EVERY);
document.addEventListener("visibilitychange", tick);
