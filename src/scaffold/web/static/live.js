// Fetch the main part of the page anew once something has happened, and keep what the reader is doing there.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const note = document.getElementById("live");
  if (!main() || !window.EventSource || !window.htmx) return;
  let due = 0;
  let waits = false;

  const isUsed = () =>
    [...main().querySelectorAll("textarea, input:not([type=hidden]), select")].some(
      (field) => field === document.activeElement || (field.value !== undefined && field.tagName !== "SELECT" && field.value !== field.defaultValue),
    );
  const opened = () => new Set([...main().querySelectorAll("details[open] > summary")].map((each) => each.textContent));

  const refresh = async () => {
    due = 0;
    if (isUsed()) {
      waits = true;
      note.textContent = "Something has changed; the page follows once your text is sent or removed.";
      return;
    }
    waits = false;
    const open = opened();
    const at = document.activeElement && document.activeElement.id;
    await htmx.ajax("GET", location.pathname + location.search, { target: "#main", select: "#main", swap: "outerMorph" });
    for (const each of main().querySelectorAll("details > summary")) {
      if (open.has(each.textContent)) each.parentElement.open = true;
    }
    if (at && document.getElementById(at)) document.getElementById(at).focus();
    note.textContent = "";
  };
  const schedule = () => {
    if (!due) due = setTimeout(refresh, 300);
  };

  // A browser has six connections to a server: tabs in the background, or left, must not hold one each.
  let source = null;
  const follow = () => {
    source = new EventSource(main().dataset.events);
    source.addEventListener("changed", schedule);
    source.addEventListener("open", () => {
      note.textContent = "";
    });
    source.addEventListener("error", () => {
      note.textContent = "Not connected: what is shown may be old.";
    });
  };
  const rest = () => {
    if (source) source.close();
    source = null;
  };
  const seen = () => {
    if (document.hidden) return rest();
    if (source) return;
    follow();
    schedule();
  };
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", (event) => event.persisted && seen());
  if (!document.hidden) follow();
  document.addEventListener("focusout", () => {
    if (waits) schedule();
  });
})();
