// The row above the table: search, verdicts, choices.

const TOGGLES = [
  ["flaky", "Flaky", (row) => row.flaky],
  ["changed", "Changed", (row) => FILTERS.changed(row)],
  ["retried", "Retried", (row) => row.tries > 1],
  ["quarantine", "Quarantined", (row) => row.quarantine],
];

const toolbar = h("div", { class: "toolbar", role: "search", "aria-label": "Filter rollouts" });
const searchBox = h("input", {
  type: "search",
  id: "search",
  placeholder: "Search tasks and messages",
  "aria-label": "Search rollouts",
  autocomplete: "off",
  spellcheck: "false",
  "aria-keyshortcuts": "/",
  oninput: () => setFilters({ q: searchBox.value.trim() }),
});

function drawToolbar(state, count) {
  const focused = toolbar.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  if (document.activeElement !== searchBox) searchBox.value = state.get("q") ?? "";
  const within = matching(state, "verdict");
  const chosen = (state.get("verdict") ?? "").split(",").filter(Boolean);
  const isFiltered = Object.keys(FILTERS).some((name) => state.get(name));
  if (toolbar.firstChild === null)
    toolbar.append(h("div", { class: "search" }, searchBox, h("kbd", { "aria-hidden": "true" }, "/")));
  while (toolbar.children.length > 1) toolbar.lastChild.remove(); // the search box stays, with its focus
  add(toolbar, [
    h(
      "div",
      { class: "chips", role: "group", "aria-label": "Verdicts" },
      OUTCOMES.map((verdict) => verdictChip(verdict, within, chosen)),
    ),
    SEVERAL.agent && choice("agent", "All agents", state, "agent"),
    SEVERAL.environment && choice("env", "All environments", state, "environment"),
    DATA.errors.length > 0 &&
      (state.get("error") || DATA.errors.length > 1) &&
      choice("error", "All errors", state, "error"),
    TOGGLES.filter(([, , has]) => ROWS.some(has)).map(([name, label]) => toggle(name, label, state)),
    isFiltered && h("button", { type: "button", class: "link", onclick: clearFilters }, "Clear"),
    h(
      "span",
      { class: "shown muted", role: "status" },
      count === ROWS.length
        ? counted(count, "rollout")
        : `${count.toLocaleString("en")} of ${counted(ROWS.length, "rollout")}`,
    ),
  ]);
  table.style.setProperty("--toolbar", `${toolbar.offsetHeight}px`); // the heads stay below it
  if (focused) toolbar.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
}

function verdictChip(verdict, within, chosen) {
  const count = within.filter((row) => row.verdict === verdict).length;
  const on = chosen.includes(verdict);
  const next = on ? chosen.filter((each) => each !== verdict) : [...chosen, verdict];
  return h(
    "button",
    {
      type: "button",
      class: `chip ${verdict}`,
      "aria-pressed": String(on),
      "data-name": `verdict-${verdict}`,
      disabled: count === 0 && !on,
      onclick: () => setFilters({ verdict: next.join(",") }),
    },
    icon(verdict),
    verdict,
    h("span", { class: "number" }, count.toLocaleString("en")),
  );
}

function choice(name, all, state, key) {
  const values = [...new Set(ROWS.map((row) => row[key]))].filter(Boolean).sort(compareTexts);
  const current = state.get(name) ?? "";
  if (current && !values.includes(current)) values.push(current);
  return h(
    "select",
    {
      "aria-label": all.replace("All ", ""),
      "data-name": name,
      onchange: (event) => setFilters({ [name]: event.target.value }),
    },
    h("option", { value: "" }, all),
    values.map((value) => h("option", { value, selected: value === current }, value)),
  );
}

function toggle(name, label, state) {
  const on = Boolean(state.get(name));
  return h(
    "button",
    {
      type: "button",
      class: "chip",
      "aria-pressed": String(on),
      "data-name": name,
      onclick: () => setFilters({ [name]: on ? null : "1" }),
    },
    label,
  );
}

function clearFilters() {
  searchBox.value = "";
  setFilters(Object.fromEntries(Object.keys(FILTERS).map((name) => [name, null])));
  searchBox.focus();
}
