// Ties the parts together: which page is shown, keys, colours, print.

const page = document.getElementById("main");
const help = document.getElementById("help");
let listPlace = 0; // where the list was scrolled to when a task was opened
let showing = null;

function show() {
  const state = currentState();
  if (state.get("task")) showTask(state);
  else showList({ keepPlace: false });
}

function showTask(state) {
  if (showing === "list") listPlace = window.scrollY;
  showing = "task";
  fill(page, drawTask(state));
  document.title = `${state.get("task")} - rlenv`;
  window.scrollTo(0, 0);
  page.focus({ preventScroll: true });
}

function showList({ keepPlace }) {
  const state = currentState();
  if (showing !== "list") {
    fill(
      page,
      overview(),
      h(
        "section",
        { class: "list", id: "rollouts", "aria-labelledby": "rollouts-title" },
        h("h2", { id: "rollouts-title" }, "Rollouts"),
        toolbar,
        table,
      ),
    );
  }
  const count = drawTable(state);
  drawToolbar(state, count);
  document.title = `${DATA.title} - rlenv`;
  if (showing === "task") {
    window.scrollTo(0, listPlace);
    drawRows(true);
    if (active !== null && visible.includes(active)) goTo(active);
  } else if (showing === "list" && keepPlace) drawRows(true);
  showing = "list";
}

// ---- colours: the system's, until the reader says otherwise

const THEMES = ["system", "light", "dark"];

function storedTheme() {
  try {
    return localStorage.getItem("rlenv-theme");
  } catch {
    return null; // some browsers give files no storage
  }
}

function setTheme(theme) {
  const known = THEMES.includes(theme) ? theme : "system";
  document.documentElement.dataset.theme = known;
  try {
    localStorage.setItem("rlenv-theme", known);
  } catch {
    // as above
  }
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === known));
  }
}

function drawTop() {
  const marks = { system: "◐", light: "○", dark: "●" };
  fill(
    document.getElementById("top"),
    h("a", { href: "#", class: "brand", title: "All rollouts" }, "rlenv"),
    h("span", { class: "where muted" }, h("bdi", {}, DATA.title)),
    h(
      "span",
      { class: "themes", role: "group", "aria-label": "Colours" },
      THEMES.map((theme) =>
        h(
          "button",
          {
            type: "button",
            class: "plain",
            "data-theme-choice": theme,
            title: `${theme} colours`,
            "aria-label": `${theme} colours`,
            onclick: () => setTheme(theme),
          },
          marks[theme],
        ),
      ),
    ),
    h(
      "button",
      {
        type: "button",
        class: "plain",
        onclick: () => help.showModal(),
        title: "Keys (?)",
        "aria-label": "Keys",
      },
      "?",
    ),
  );
}

// ---- keys

const KEYS = [
  ["/", "search"],
  ["j, ↓", "next row; in a task the next rollout"],
  ["k, ↑", "the one before"],
  ["Enter", "open"],
  ["Esc", "back"],
  ["d", "light or dark"],
  ["?", "this"],
];

function drawHelp() {
  fill(
    help,
    h("h2", { id: "help-title" }, "Keys"),
    h(
      "dl",
      { class: "pairs" },
      KEYS.map(([key, what]) => [
        h(
          "dt",
          {},
          key.split(", ").map((each) => h("kbd", {}, each)),
        ),
        h("dd", {}, what),
      ]),
    ),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
}

function isTyping(target) {
  return (
    target instanceof HTMLElement && (target.matches("input, select, textarea") || target.isContentEditable)
  );
}

function step(by) {
  if (showing === "list") move(by);
  else document.querySelector(`.task-nav button[aria-label^="${by < 0 ? "Previous" : "Next"}"]`)?.click();
}

function goBack() {
  if (document.activeElement === searchBox && searchBox.value) {
    searchBox.value = "";
    setFilters({ q: null });
  } else if (document.activeElement === searchBox) searchBox.blur();
  else if (showing === "task") leaveTask();
}

function search() {
  if (showing === "task") {
    leaveTask();
    show(); // the address' own event comes later than the focus is wanted
  }
  toRollouts();
  searchBox.focus();
  searchBox.select();
}

const isDark = () =>
  getComputedStyle(document.documentElement).colorScheme === "dark" ||
  (document.documentElement.dataset.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);

const ACTIONS = {
  "/": search,
  j: () => step(1),
  k: () => step(-1),
  "?": () => help.showModal(),
  d: () => setTheme(isDark() ? "light" : "dark"),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "Escape") return goBack();
  const inRows = body.contains(event.target) || (event.target === searchBox && event.key === "ArrowDown");
  if (inRows && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    return event.target === searchBox && visible.length > 0
      ? goTo(visible[0])
      : step(event.key === "ArrowDown" ? 1 : -1);
  }
  if (isTyping(event.target) || !(event.key in ACTIONS)) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

searchBox.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && visible.length > 0) openRow(visible[0]);
});

// ---- scrolling, resizing, printing

let asked = false;

function redrawSoon() {
  if (asked || showing !== "list") return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    drawRows(false);
  });
}

function print(begins) {
  if (printing === begins) return;
  printing = begins;
  if (showing === "list") drawRows(true);
  for (const each of page.querySelectorAll("details")) {
    if (begins && !each.open) each.dataset.opened = "1";
    if (begins) each.open = true;
    else if (each.dataset.opened) {
      each.open = false;
      delete each.dataset.opened;
    }
  }
}

window.addEventListener("scroll", redrawSoon, { passive: true });
page.addEventListener("toggle", redrawSoon, true); // what is above the table may have become shorter
window.addEventListener("resize", () => showing === "list" && showList({ keepPlace: true }));
window.addEventListener("hashchange", show);
window.addEventListener("beforeprint", () => print(true));
window.addEventListener("afterprint", () => print(false));
matchMedia("print").addEventListener("change", (event) => print(event.matches));
document.getElementById("skip").addEventListener("click", () => page.focus());
document.addEventListener("DOMContentLoaded", () => showing === "task" && show()); // now its details have been read

drawTop();
drawHelp();
setTheme(storedTheme());
show();
performance.mark("rlenv-shown");
