// One stream of changes. When something changes that this page is about, the page is fetched again, and every element
// with data-live and an id is replaced by its new self. Whoever types or has opened something is not disturbed.
const topics = (document.body.dataset.topics || "").split(" ").filter(Boolean);
const light = document.getElementById("live");
const LEAST_PAUSE = 1000;
const MOST_PAUSE = 30000;
let instance = null;
let isFetching = false;
let isDue = false;
let pause = LEAST_PAUSE;

function show(state, words) {
  if (!light || (light.dataset.state === state && light.textContent === words)) return;
  light.dataset.state = state;
  light.textContent = words;
}

function isAbout(changed) {
  return !topics.length || changed.includes("*") || changed.some((topic) => topics.includes(topic));
}

function isBusy(element) {
  const active = document.activeElement;
  return active && active !== document.body && element.contains(active) && active.matches("input, select, textarea");
}

// What an element shows, but for the words that go on by themselves.
function still(element) {
  const copy = element.cloneNode(true);
  for (const each of copy.querySelectorAll("[data-ago], [data-since], [data-until]")) {
    each.textContent = "";
    if (!each.hasAttribute("data-ago")) each.replaceWith("");
  }
  return copy.outerHTML;
}

// The moments of an element that is the same otherwise.
function retime(element, other) {
  const fresh = [...other.querySelectorAll("[data-since], [data-until]")];
  [...element.querySelectorAll("[data-since], [data-until]")].forEach((each, n) => Object.assign(each.dataset, fresh[n]?.dataset));
}

const stops = (element) => [...element.querySelectorAll("a, button, summary, [tabindex]")];

// Whoever goes with the keyboard stays where they are.
function keepFocus(clone, id, stop, was) {
  const wanted = id ? document.getElementById(id) : stops(clone)[stop];
  if (wanted && (id || (wanted.href === was.href && wanted.textContent === was.textContent))) wanted.focus({ preventScroll: true });
}

export function swap(fresh) {
  for (const element of document.querySelectorAll("[data-live][id]")) {
    const other = fresh.getElementById(element.id);
    if (!other || isBusy(element)) continue;
    if (still(other) === still(element)) {
      retime(element, other);
      continue;
    }
    const open = [...element.querySelectorAll("details[open][id]")].map((each) => each.id);
    const active = element.contains(document.activeElement) ? document.activeElement : null;
    const stop = active ? stops(element).indexOf(active) : -1;
    const clone = document.importNode(other, true);
    element.replaceWith(clone);
    for (const id of open) clone.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    if (active) keepFocus(clone, active.id, stop, active);
    clone.dispatchEvent(new CustomEvent("swapped", { bubbles: true }));
  }
}

export async function refresh() {
  if (isFetching || document.hidden) {
    isDue = true;
    return;
  }
  isFetching = true;
  isDue = false;
  const begun = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { "x-odf-live": "1" }, credentials: "same-origin" });
    if (answer.ok && !answer.redirected) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (fresh.body.dataset.csrf) document.body.dataset.csrf = fresh.body.dataset.csrf;
      swap(fresh);
    } else if (answer.redirected) {
      location.reload();
    }
  } catch {
    // the stream says that the server is gone
  }
  // A slow answer means a busy server: ask less often.
  pause = Math.min(Math.max(LEAST_PAUSE, (performance.now() - begun) * 10), MOST_PAUSE);
  setTimeout(() => {
    isFetching = false;
    if (isDue) refresh();
  }, pause);
}

function listen() {
  const stream = new EventSource("/live");
  stream.addEventListener("hello", (event) => {
    const told = JSON.parse(event.data).instance;
    const isAnother = instance !== null && instance !== told;
    const wasLost = light.dataset.state === "lost";
    instance = told;
    show("on", "live");
    if (isAnother || wasLost) refresh();
  });
  stream.addEventListener("change", (event) => {
    if (isAbout(JSON.parse(event.data).topics)) refresh();
  });
  stream.addEventListener("store", (event) => {
    const told = JSON.parse(event.data);
    show(told.lost ? "lost" : "on", told.lost ? "the store does not answer" : "live");
  });
  stream.onerror = () => {
    show("lost", "not connected");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

if (light) {
  show("", "connecting");
  listen();
  document.addEventListener("visibilitychange", () => !document.hidden && isDue && refresh());
}
