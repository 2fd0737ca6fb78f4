"use strict";

// Keeps the page as it would be if it were loaded now: every element marked data-live is replaced
// from a fresh copy of the page. Focus and selected rows stay; what is typed is never touched.
(() => {
  const PERIOD = 2000;
  const KEY = "pullqueue-live";
  const TOKEN = "pullqueue_token";
  const button = document.getElementById("live");
  const status = document.getElementById("notice");
  const dialog = document.getElementById("dialog");
  const keys = document.getElementById("keys");
  const said = document.getElementById("said");
  let lost = false;
  let step = ""; // of sending a form: checking, sending

  // What was turned on or off. A browser may store nothing for this site: then it applies to this page only.
  const isOn = (key) => {
    try {
      return localStorage.getItem(key) !== "off";
    } catch {
      return true;
    }
  };
  const keepOn = (key, value) => {
    try {
      localStorage.setItem(key, value ? "on" : "off");
    } catch {
      // As above.
    }
  };
  let live = isOn(KEY);

  const address = () => {
    const url = new URL(location.href);
    url.searchParams.delete("notice");
    return url;
  };

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  const replace = (old, fresh) => {
    for (const box of old.querySelectorAll("[type=checkbox], [type=radio]")) {
      const same = fresh.querySelector(`#${CSS.escape(box.id)}`);
      if (same) same.checked = box.checked;
      else if (box.checked && box.name === "task") {
        // Its row is no longer on this page, but it stays selected.
        box.hidden = true;
        fresh.append(box);
      }
    }
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  // Whether a form in a part is being filled in.
  const isFilled = (part) => {
    const isOther = (field) => {
      if (field.matches("select")) return field.selectedIndex !== Math.max(0, [...field.options].findIndex((each) => each.defaultSelected));
      return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    };
    const fields = [...part.querySelectorAll("select, textarea, input:not([type=hidden], [type=checkbox])")];
    return fields.some((field) => !field.closest("details:not([open])") && (field === document.activeElement || isOther(field)));
  };

  // A part stays while text in it is selected, the pointer reads its chart, or a form in it is open or filled in.
  const isRead = (part) => {
    const selection = getSelection();
    return part.querySelector(".chart:hover, details[open]") || isFilled(part) || (!selection.isCollapsed && selection.containsNode(part, true));
  };

  // Rows hold still under the pointer, with the keyboard's focus in them, or while one is selected.
  const isHeld = (part) => part.matches("[data-hold]") && part.querySelector("tbody:hover, tbody :focus-visible, [name=task]:checked");

  // Returns how many rows were added, removed or changed.
  const countChanges = (old, fresh) => {
    const rows = (part) => new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.id, row.dataset.row]));
    const [before, after] = [rows(old), rows(fresh)];
    const ids = new Set([...before.keys(), ...after.keys()]);
    return [...ids].filter((id) => before.get(id) !== after.get(id)).length;
  };

  const showSelected = () => {
    for (const label of document.querySelectorAll("[data-selected]")) {
      const boxes = [...label.closest("form").querySelectorAll("[name=task]:checked")];
      const away = boxes.filter((box) => box.hidden).length;
      label.textContent = boxes.length ? `${boxes.length} selected${away ? `, ${away} of them not on this page` : ""}` : "";
    }
  };

  // Replaces a part of the page by its fresh copy, or says how much it would change.
  let waiting = null;
  const update = (old, fresh, { force = false } = {}) => {
    const changes = document.getElementById("changes");
    const isHolding = !force && isHeld(old);
    if (isHolding) {
      waiting = fresh;
      const count = countChanges(old, fresh);
      const text = count ? `${count} change${count === 1 ? "" : "s"}` : "";
      if (!text) changes.replaceChildren();
      else if (changes.firstChild) changes.firstChild.textContent = text;
      else {
        const show = document.createElement("button");
        show.type = "button";
        show.textContent = text;
        show.title = "Show them now";
        show.addEventListener("click", () => release({ force: true }));
        changes.append(show);
      }
      return;
    }
    if (old.matches("[data-hold]")) {
      waiting = null;
      changes.replaceChildren();
    }
    replace(old, document.adoptNode(fresh));
    showSelected();
  };

  // Applies what waits, once nothing holds the rows.
  const release = (options) => {
    const old = document.querySelector("[data-hold]");
    if (waiting && old && !dialog.open && (options?.force || !isHeld(old))) update(old, waiting, options);
  };

  const say = (text) => {
    const note = document.createElement("p");
    note.className = "notice error said";
    note.textContent = text;
    status.replaceChildren(note);
  };

  const setLost = (value) => {
    lost = value;
    button.classList.toggle("lost", lost);
  };

  // Returns a page as it is now, or null if it cannot be loaded, which the status says until it can.
  const load = async (url) => {
    try {
      const answer = await fetch(url, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const copy = parse(await answer.text());
      if (lost) status.replaceChildren();
      setLost(false);
      // If the server was restarted, its old token would be refused.
      const token = copy.querySelector(`meta[name=${TOKEN}]`).content;
      for (const old of document.getElementsByName(TOKEN)) old.value = token;
      return copy;
    } catch (error) {
      const why = error instanceof TypeError ? "The server does not respond" : `This page cannot be refreshed (${error.message})`;
      if (!lost) say(`${why}. The page shows what was known before.`);
      setLost(true);
      return null;
    }
  };

  // Loads the page that asks for the least. If it cannot be loaded, what was begun stays as it is.
  const check = async () => {
    const copy = await load(document.getElementById("to-clock").href);
    if (!copy) dialog.close();
    return copy !== null;
  };

  const refresh = async () => {
    const copy = await load(address());
    if (copy && !step && !dialog.open) updateAll(copy);
  };

  const updateAll = (copy) => {
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = copy.getElementById(old.id);
      if (fresh && old.outerHTML !== fresh.outerHTML && !isRead(old)) update(old, fresh);
    }
  };

  const tick = async () => {
    const started = performance.now();
    if (live && !document.hidden && !document.getElementById("confirm")) await refresh();
    setTimeout(tick, Math.max(PERIOD, 4 * (performance.now() - started)));
  };

  const setLive = (value) => {
    live = value;
    button.setAttribute("aria-pressed", String(live));
    keepOn(KEY, live);
    if (live) refresh();
  };

  // Shows the question of a page in a dialog; without this script the page itself asks.
  const ask = async (target) => {
    if (!(await check())) return;
    const answer = target.form
      ? await fetch(target.formAction, { method: "POST", body: new URLSearchParams(new FormData(target.form, target)) })
      : await fetch(target.href);
    const copy = parse(await answer.text());
    const question = copy.getElementById("confirm");
    if (!question) {
      say(copy.querySelector("main .notice")?.textContent ?? `status ${answer.status}`);
      return;
    }
    question.removeAttribute("id");
    question.querySelector("[name=back]").value = address().pathname + address().search;
    dialog.replaceChildren(document.adoptNode(question));
    dialog.showModal();
  };

  // Goes on with a delivery that takes long, call by call, until its time is reached or it is stopped.
  const goOn = async (form) => {
    const [button, stop] = [document.getElementById("continue"), document.getElementById("stop")];
    let stopped = false;
    stop.addEventListener("click", () => {
      stopped = stop.disabled = true;
    });
    button.hidden = true;
    stop.hidden = false;
    status.setAttribute("aria-live", "off"); // it is read at the end, not at each call
    while (!stopped) {
      let copy = null;
      try {
        const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
        copy = parse(await answer.text());
      } catch {
        status.removeAttribute("aria-live");
        say("The server does not respond.");
      }
      const fresh = copy?.getElementById("go-on");
      if (stopped || !fresh) status.removeAttribute("aria-live");
      if (copy) updateAll(copy);
      if (copy) status.replaceChildren(...document.adoptNode(copy.getElementById("notice")).childNodes);
      if (copy && !fresh) form.remove();
      if (!fresh) break;
      form.querySelector("progress").value = fresh.querySelector("progress").value;
      document.getElementById("passed").textContent = copy.getElementById("passed").textContent;
    }
    button.hidden = false;
    stop.hidden = true;
    stop.disabled = false;
  };

  const copyText = async (from) => {
    await navigator.clipboard.writeText(from.dataset.copy);
    const label = from.textContent;
    from.textContent = "Copied";
    said.textContent = "Copied";
    setTimeout(() => {
      from.textContent = label;
      said.textContent = "";
    }, 1500);
  };

  document.addEventListener("click", (event) => {
    const target = event.target.closest("a, button, input");
    if (!target) return;
    if (!lost) status.querySelector(".said")?.remove();
    if (target.matches("[data-copy]")) copyText(target).catch(() => say("The browser does not permit to copy."));
    else if (target.matches("[data-cancel]") && dialog.open) {
      event.preventDefault();
      dialog.close();
    } else if (target.matches("[data-select-page]")) {
      for (const box of target.form.querySelectorAll("[name=task]:not([hidden])")) box.checked = target.checked;
    } else if (target.matches("[data-dialog]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      ask(target);
    }
  });

  // A form is sent when the server responds: otherwise the browser would show an error page in its place.
  document.addEventListener("submit", async (event) => {
    if (step === "sending" || event.target.getAttribute("method") !== "post") return;
    event.preventDefault();
    if (step) return;
    step = "checking";
    if (await check()) {
      step = "sending";
      event.target.requestSubmit(event.submitter);
    }
    step = "";
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches(".filter select, .project select")) event.target.form.requestSubmit();
    showSelected();
    release();
  });
  document.addEventListener("mouseout", (event) => {
    if (event.target.closest("tbody")) requestAnimationFrame(() => release());
  });
  document.addEventListener("focusout", () => requestAnimationFrame(() => release()));

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

  // Whether to deliver while time passes stays as it was chosen.
  const DELIVER = "pullqueue-deliver";
  const deliver = document.getElementById("strip-deliver");
  if (deliver) deliver.checked = isOn(DELIVER);
  document.addEventListener("change", (event) => {
    if (event.target.id === "strip-deliver") keepOn(DELIVER, event.target.checked);
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

  const unfinished = document.getElementById("go-on");
  if (unfinished) goOn(unfinished);

  const url = address();
  if (url.href !== location.href) history.replaceState(null, "", url);
  document.getElementById("show-keys").addEventListener("click", () => keys.showModal());
  button.addEventListener("click", () => setLive(!live));
  document.documentElement.classList.add("script");
  button.setAttribute("aria-pressed", String(live));
  document.querySelector("[aria-invalid]")?.focus();
  setTimeout(tick, PERIOD);
})();
