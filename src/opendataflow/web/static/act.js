// Actions in a dialog, where the browser can; each is a page of its own otherwise.
const dialog = document.createElement("dialog");
dialog.setAttribute("aria-label", "What would happen");
document.body.append(dialog);

function shown(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  return fresh.getElementById("act") || fresh.querySelector(".problem");
}

function fill(section, { reason = "", focus = "" } = {}) {
  dialog.replaceChildren(document.importNode(section, true));
  const why = dialog.querySelector("#why");
  if (why && reason && !why.value) why.value = reason;
  for (const button of dialog.querySelectorAll(".again")) button.hidden = true;
  if (!dialog.open) dialog.showModal();
  const wanted = (focus && dialog.querySelector(`[name="${CSS.escape(focus)}"]`)) || why || dialog.querySelector("a, button");
  wanted?.focus();
}

async function ask(address, how, request = {}) {
  const answer = await fetch(address, { credentials: "same-origin", headers: { "x-odf-live": "1" }, redirect: "manual", ...request });
  if (answer.type === "opaqueredirect") return false;
  const section = shown(await answer.text());
  if (!section) return false;
  fill(section, how);
  return true;
}

function fields(form) {
  return new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-act], a[data-close]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (link.matches("[data-close]")) {
    if (!dialog.contains(link)) return;
    event.preventDefault();
    dialog.close();
    return;
  }
  event.preventDefault();
  try {
    if (!(await ask(link.href))) location.assign(link.href);
  } catch {
    location.assign(link.href);
  }
});

// A form that only asks: what it says is looked at in the dialog first.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-act]")) return;
  event.preventDefault();
  const address = `${form.getAttribute("action")}?${fields(form)}`;
  try {
    if (!(await ask(address))) location.assign(address);
  } catch {
    location.assign(address);
  }
});

dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => dialog.replaceChildren());

dialog.addEventListener("change", async (event) => {
  if (!event.target.matches("[data-again]")) return;
  const given = fields(event.target.form);
  const reason = given.get("why") || "";
  for (const name of ["csrf", "seen", "why"]) given.delete(name);
  await ask(`${event.target.form.getAttribute("action")}?${given}`, { reason, focus: event.target.name }).catch(() => {});
});

dialog.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const given = fields(form);
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  try {
    if (!(await ask(form.getAttribute("action"), { reason: given.get("why") || "" }, { method: "POST", body: given }))) location.assign(given.get("next") || "/");
  } catch {
    form.submit();
  }
});
