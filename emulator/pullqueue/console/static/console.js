"use strict";

// Keeps the page as it would be if it were loaded now: every element marked data-live is taken from
// a fresh copy of the page. What is focused or selected stays so; forms are never touched.
(() => {
  const PERIOD = 2000;
  const KEY = "pullqueue-live";
  const button = document.getElementById("live");
  const status = document.getElementById("status");
  let lost = false;
  let live = true;
  try {
    live = localStorage.getItem(KEY) !== "off";
  } catch {
    // The browser keeps nothing for this site: the choice holds for this page alone.
  }

  const address = () => {
    const url = new URL(location.href);
    url.searchParams.delete("notice");
    return url;
  };

  const replace = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
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

  const refresh = async () => {
    try {
      const answer = await fetch(address(), { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const copy = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (lost) status.replaceChildren();
      lost = false;
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = copy.getElementById(old.id);
        if (fresh) replace(old, document.adoptNode(fresh));
      }
      for (const fresh of copy.querySelectorAll("input[type=hidden][name=pullqueue_token]")) {
        // The server was started anew: its old token would be refused.
        for (const old of document.getElementsByName(fresh.name)) old.value = fresh.value;
      }
    } catch (error) {
      const why = error instanceof TypeError ? "The server does not respond" : "This page cannot be refreshed";
      if (!lost) say(`${why} (${error.message}). It shows what was known before.`);
      lost = true;
    }
  };

  const tick = async () => {
    if (live && !document.hidden && !isReading()) await refresh();
    setTimeout(tick, PERIOD);
  };

  const show = () => button.setAttribute("aria-pressed", String(live));

  button.addEventListener("click", () => {
    live = !live;
    show();
    try {
      localStorage.setItem(KEY, live ? "on" : "off");
    } catch {
      // As above.
    }
    if (live) refresh();
  });

  const url = address();
  if (url.href !== location.href) history.replaceState(null, "", url);
  button.hidden = false;
  show();
  setTimeout(tick, PERIOD);
})();
