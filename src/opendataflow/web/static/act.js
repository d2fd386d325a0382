// Actions in a dialog, where the browser can; each is a page of its own otherwise.
const dialog = document.createElement("dialog");
dialog.setAttribute("aria-label", "What would happen");
document.body.append(dialog);

const GONE = "The console does not answer. What you wrote is kept: try again in a moment.";
const RESTARTED = "The console was restarted: confirm again.";
const LOGGED_OUT = "You are logged out. Log in again in another window, then confirm here.";

function made(tag, words, given = {}) {
  const element = document.createElement(tag);
  element.textContent = words;
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  return element;
}

// Whatever the dialog shows, it can be closed.
function show() {
  if (!dialog.querySelector("[data-close]")) {
    const row = made("p", "", { class: "buttons" });
    row.append(made("button", "Close", { type: "button", "data-close": "" }));
    dialog.append(row);
  }
  if (!dialog.open) dialog.showModal();
}

function tell(words) {
  dialog.querySelector(".told-here")?.remove();
  const told = made("p", words, { class: "notice warn told-here", role: "alert" });
  const title = dialog.querySelector("h1");
  if (title) title.after(told);
  else dialog.prepend(told);
  for (const button of dialog.querySelectorAll("button")) button.disabled = false;
  show();
}

function fill(section, { reason = "", focus = "", words = "" } = {}) {
  dialog.replaceChildren(document.importNode(section, true));
  const why = dialog.querySelector("#why");
  if (why && reason && !why.value) why.value = reason;
  for (const button of dialog.querySelectorAll(".again")) button.hidden = true;
  if (words) tell(words);
  show();
  const wanted = (focus && dialog.querySelector(`[name="${CSS.escape(focus)}"]`)) || why || dialog.querySelector("a, button");
  wanted?.focus();
}

async function fetched(address, request = {}) {
  const answer = await fetch(address, { credentials: "same-origin", headers: { "x-odf-live": "1" }, redirect: "manual", ...request });
  const isElsewhere = answer.type === "opaqueredirect";
  const fresh = isElsewhere ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
  const form = fresh?.getElementById("act");
  return { isElsewhere, status: answer.status, form, section: form || fresh?.querySelector(".problem") };
}

function fields(form) {
  return new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
}

function asking(form, given) {
  const asked = new URLSearchParams(given);
  for (const name of ["csrf", "seen", "why"]) asked.delete(name);
  return `${form.getAttribute("action")}?${asked}`;
}

// A look at what would happen; where that leads elsewhere, the browser goes there.
async function look(address) {
  let found;
  try {
    found = await fetched(address);
  } catch {
    if (!dialog.open) dialog.replaceChildren();
    tell(GONE);
    return;
  }
  if (found.section) fill(found.section);
  else location.assign(address);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-act], [data-close]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (link.matches("[data-close]")) {
    if (!dialog.contains(link)) return;
    event.preventDefault();
    dialog.close();
    return;
  }
  event.preventDefault();
  look(link.href);
});

// A form that only asks: what it says is looked at in the dialog first.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-act]")) return;
  event.preventDefault();
  look(`${form.getAttribute("action")}?${fields(form)}`);
});

dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => dialog.replaceChildren());

dialog.addEventListener("change", async (event) => {
  if (!event.target.matches("[data-again]")) return;
  const given = fields(event.target.form);
  const found = await fetched(asking(event.target.form, given)).catch(() => null);
  if (found?.section) fill(found.section, { reason: given.get("why") || "", focus: event.target.name });
  else tell(found ? LOGGED_OUT : GONE);
});

// Sessions end with the console's process: the same form of the new one is shown, with what was written.
async function again(form, given, refused) {
  const found = await fetched(asking(form, given));
  if (found.form) fill(found.form, { reason: given.get("why") || "", words: RESTARTED });
  else if (found.isElsewhere || found.status === 401) tell(LOGGED_OUT);
  else fill(found.section || refused);
}

dialog.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const given = fields(form);
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  try {
    const found = await fetched(form.getAttribute("action"), { method: "POST", body: given });
    if (found.status === 401 || found.status === 403) await again(form, given, found.section);
    else if (found.section) fill(found.section, { reason: given.get("why") || "" });
    else location.assign(given.get("next") || "/");
  } catch {
    tell(GONE);
  }
});
