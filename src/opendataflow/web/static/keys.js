// Keys that work on every page, and the suggestions below the search field.
const PAGES = { o: "/", f: "/flow", r: "/recovery", t: "/timeline", h: "/history", p: "/report", c: "/chaos" };
const field = document.getElementById("search");
const PAUSE = 150;
let isGoing = false;
let going = 0;

const isTyping = (element) => element?.matches?.("input, select, textarea, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]:not(.keys)")) return;
  if (isGoing) {
    isGoing = false;
    clearTimeout(going);
    if (PAGES[event.key]) {
      event.preventDefault();
      location.assign(PAGES[event.key]);
    }
    return;
  }
  if (event.key === "/" && field) {
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "g") {
    isGoing = true;
    going = setTimeout(() => (isGoing = false), 1500);
  } else if (event.key === "?") {
    event.preventDefault();
    help();
  }
});

// What the keys are, taken from the page that lists them for everybody.
async function help() {
  let dialog = document.querySelector("dialog.keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.className = "keys";
    dialog.setAttribute("aria-label", "Keys");
    document.body.append(dialog);
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  if (dialog.open) return dialog.close();
  if (!dialog.childElementCount) {
    try {
      const answer = await fetch("/about", { credentials: "same-origin", headers: { "x-odf-live": "1" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const title = document.createElement("h2");
      title.textContent = "Keys";
      const close = document.createElement("button");
      close.textContent = "Close";
      close.addEventListener("click", () => dialog.close());
      dialog.append(title, document.importNode(fresh.querySelector("table.keys"), true), close);
    } catch {
      location.assign("/about");
      return;
    }
  }
  dialog.showModal();
}

// Suggestions: a list that the arrow keys walk through; Enter without a choice asks for the whole page.
if (field) {
  const list = document.createElement("ul");
  list.id = "found";
  list.className = "found";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What this may mean");
  field.parentElement.append(list);
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", "found");
  field.setAttribute("aria-expanded", "false");
  let timer = 0;
  let asked = 0;

  const options = () => [...list.children];
  const chosen = () => list.querySelector('[aria-selected="true"]');

  const close = () => {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };

  const choose = (option) => {
    chosen()?.setAttribute("aria-selected", "false");
    if (!option) return field.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", option.id);
  };

  const show = (hits) => {
    list.replaceChildren(
      ...hits.map((hit, n) => {
        const option = document.createElement("li");
        option.id = `found-${n}`;
        option.dataset.href = hit.href;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
        for (const [name, text] of [["kind", hit.kind], ["id", hit.name], ["told", hit.status || hit.told]]) {
          const part = document.createElement("span");
          part.className = name;
          part.textContent = text;
          option.append(part, " ");
        }
        return option;
      }),
    );
    list.hidden = !hits.length;
    field.setAttribute("aria-expanded", String(hits.length > 0));
    field.removeAttribute("aria-activedescendant");
  };

  const ask = async () => {
    const text = field.value.trim();
    const mine = ++asked;
    if (!text) return close();
    try {
      const answer = await fetch(`/search/suggest?q=${encodeURIComponent(text)}`, { credentials: "same-origin" });
      if (mine === asked && answer.ok && document.activeElement === field) show(await answer.json());
    } catch {
      close();
    }
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.indexOf(chosen());
    if (event.key === "ArrowDown" && list.hidden && field.value.trim()) {
      event.preventDefault();
      ask();
    } else if (event.key === "ArrowDown" && all.length) {
      event.preventDefault();
      choose(all[(at + 1) % all.length]);
    } else if (event.key === "ArrowUp" && all.length && !list.hidden) {
      event.preventDefault();
      choose(all[at < 0 ? all.length - 1 : at - 1]);
    } else if (event.key === "Enter" && chosen() && !list.hidden) {
      event.preventDefault();
      location.assign(chosen().dataset.href);
    } else if (event.key === "Escape") {
      if (list.hidden) field.blur();
      else event.preventDefault();
      asked += 1;
      close();
    }
  });
  field.addEventListener("blur", () => setTimeout(close, 150));
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("li");
    if (option) location.assign(option.dataset.href);
  });
}
