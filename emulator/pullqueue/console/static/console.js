"use strict";

// Keeps the page as it would be if it were loaded now: every element marked data-live is replaced
// from a fresh copy of the page. Focus and selected rows stay; what is typed is never touched.
(() => {
  const PERIOD = 2000;
  const KEY = "pullqueue-live";
  const button = document.getElementById("live");
  const status = document.getElementById("status");
  const dialog = document.getElementById("dialog");
  const keys = document.getElementById("keys");
  let lost = false;
  let live = true;
  try {
    live = localStorage.getItem(KEY) !== "off";
  } catch {
    // The browser stores nothing for this site: the choice applies to this page only.
  }

  const address = () => {
    const url = new URL(location.href);
    url.searchParams.delete("notice");
    return url;
  };

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  const replace = (old, fresh) => {
    for (const box of old.querySelectorAll("input:checked")) {
      const same = fresh.querySelector(`#${CSS.escape(box.id)}`);
      if (same) same.checked = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  const isReading = () => {
    const selection = getSelection();
    return selection !== null && !selection.isCollapsed;
  };

  const say = (text) => {
    const note = document.createElement("p");
    note.className = "notice error";
    note.textContent = text;
    status.replaceChildren(note);
  };

  const setLost = (value) => {
    lost = value;
    button.classList.toggle("lost", lost);
  };

  const refresh = async () => {
    try {
      const answer = await fetch(address(), { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const copy = parse(await answer.text());
      if (lost) status.replaceChildren();
      setLost(false);
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = copy.getElementById(old.id);
        if (fresh && old.outerHTML !== fresh.outerHTML) replace(old, document.adoptNode(fresh));
      }
      for (const fresh of copy.querySelectorAll("input[type=hidden][name=pullqueue_token]")) {
        // The server was restarted: its old token would be refused.
        for (const old of document.getElementsByName(fresh.name)) old.value = fresh.value;
      }
    } catch (error) {
      const why = error instanceof TypeError ? "The server does not respond" : "This page cannot be refreshed";
      if (!lost) say(`${why} (${error.message}). It shows what was known before.`);
      setLost(true);
    }
  };

  const tick = async () => {
    const started = performance.now();
    const isBusy = document.hidden || isReading() || dialog.open;
    if (live && !isBusy && !document.getElementById("confirm")) await refresh();
    setTimeout(tick, Math.max(PERIOD, 4 * (performance.now() - started)));
  };

  const setLive = (value) => {
    live = value;
    button.setAttribute("aria-pressed", String(live));
    try {
      localStorage.setItem(KEY, live ? "on" : "off");
    } catch {
      // As above.
    }
    if (live) refresh();
  };

  // Shows the question of a page in a dialog; without this script the page itself asks.
  const ask = async (url, options) => {
    const answer = await fetch(url, options);
    const copy = parse(await answer.text());
    const question = copy.getElementById("confirm");
    if (!question) {
      say(copy.querySelector("main .notice")?.textContent ?? `status ${answer.status}`);
      scrollTo(0, 0);
      return;
    }
    question.removeAttribute("id");
    question.querySelector("[name=back]").value = address().pathname + address().search;
    dialog.replaceChildren(document.adoptNode(question));
    dialog.showModal();
  };

  const copyText = async (from) => {
    await navigator.clipboard.writeText(from.dataset.copy);
    const label = from.textContent;
    from.textContent = "Copied";
    setTimeout(() => (from.textContent = label), 1500);
  };

  document.addEventListener("click", (event) => {
    const target = event.target.closest("a, button, input");
    if (!target) return;
    if (target.matches("[data-copy]")) copyText(target).catch(() => say("The browser does not permit to copy."));
    else if (target.matches("[data-cancel]") && dialog.open) {
      event.preventDefault();
      dialog.close();
    } else if (target.matches("[data-select-page]")) {
      for (const box of target.form.querySelectorAll("[name=task]")) box.checked = target.checked;
    } else if (target.matches("a[data-dialog]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      ask(target.href);
    } else if (target.matches("button[data-dialog]")) {
      event.preventDefault();
      ask(target.formAction, { method: "POST", body: new URLSearchParams(new FormData(target.form, target)) });
    }
  });

  // While the server does not respond, a form stays as it is: the browser would show an error page.
  document.addEventListener("submit", async (event) => {
    if (!lost || event.target.method === "dialog") return;
    event.preventDefault();
    await refresh();
    if (!lost) event.target.requestSubmit(event.submitter);
    else scrollTo(0, 0);
  });

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const filter = document.querySelector("[type=search]");
    if (event.key === "/" && filter) {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "r") refresh();
    else if (event.key === "l") setLive(!live);
    else if (event.key === "?") keys.showModal();
  });

  // Shows only the fields of the kind of fault that is chosen.
  const kind = document.querySelector("select[name=kind]");
  const showFields = () => {
    const fields = kind.selectedOptions[0].dataset.fields.split(" ");
    for (const each of document.querySelectorAll("[data-field]")) each.hidden = !fields.includes(each.dataset.field);
  };
  if (kind) {
    kind.addEventListener("change", showFields);
    showFields();
  }

  const url = address();
  if (url.href !== location.href) history.replaceState(null, "", url);
  document.getElementById("show-keys").addEventListener("click", () => keys.showModal());
  button.addEventListener("click", () => setLive(!live));
  document.documentElement.classList.add("script");
  button.setAttribute("aria-pressed", String(live));
  document.querySelector("[aria-invalid]")?.focus();
  setTimeout(tick, PERIOD);
})();
