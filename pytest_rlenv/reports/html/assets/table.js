// The table of rollouts. Only the rows near the window are in the page, however many there are.

const COLUMNS = [
  { key: "verdict", label: "Verdict", cell: (row) => badge(row.verdict) },
  { key: "task", label: "Task", cell: taskCell },
  {
    key: "environment",
    label: "Environment",
    when: () => SEVERAL.environment,
    cell: (row) => h("bdi", { title: row.environment }, row.environment),
  },
  { key: "agent", label: "Agent", when: () => SEVERAL.agent, cell: (row) => row.agent },
  { key: "attempt", label: "Attempt", when: () => SEVERAL.attempt, cell: (row) => row.attempt, number: true },
  {
    key: "reward",
    label: "Reward",
    cell: (row) =>
      h("span", { title: row.reward === null ? "no reward" : String(row.reward) }, shown(row.reward)),
    number: true,
  },
  { key: "change", label: "Baseline", when: () => Boolean(DATA.baseline), cell: changeCell },
  { key: "seconds", label: "Time", cell: (row) => seconds(row.seconds), number: true },
  {
    key: "message",
    label: "What happened",
    cell: (row) => h("span", { title: row.message || null }, row.message.split("\n")[0].slice(0, 300)),
  },
].filter((column) => !column.when || column.when());

const MARGIN = 12; // rows beyond the window's edges
const PRINTED = 5000;

const table = h("table", { class: "rollouts", role: "table" });
const head = h("thead", { role: "rowgroup" });
const body = h("tbody", { role: "rowgroup" });
table.append(h("caption", { class: "hidden" }, "Rollouts"), head, body);

let visible = [];
let active = null; // the row that the keyboard is at
let drawn = { from: 0, to: 0 };
let printing = false;

function taskCell(row, state) {
  return h(
    "span",
    { class: "task-cell" },
    h("a", { href: addressOfRow(state, row), title: row.task }, h("bdi", {}, row.task)),
    row.flaky &&
      h("span", { class: "tag", title: "attempts of this task and agent had different verdicts" }, "flaky"),
    row.tries > 1 &&
      h(
        "span",
        { class: "tag", title: `try ${row.tries}: an error ended the ones before` },
        `try ${row.tries}`,
      ),
    row.quarantine && h("span", { class: "tag" }, "quarantined"),
  );
}

function changeCell(row) {
  const before = row.before ? `before: ${row.before.verdict}, reward ${shown(row.before.reward)}` : null;
  return h("span", { class: `change ${row.change}`, title: row.reason ?? before }, row.change ?? "–");
}

function drawTable(state) {
  visible = sorted(matching(state), state.get("sort") ?? DEFAULT_SORT);
  fill(
    head,
    h(
      "tr",
      { role: "row", "aria-rowindex": "1" },
      COLUMNS.map((column) => header(column, state.get("sort") ?? DEFAULT_SORT)),
    ),
  );
  table.setAttribute("aria-rowcount", String(visible.length + 1));
  drawRows(true);
  return visible.length;
}

function header(column, sort) {
  const isSorted = sort.replace(/^-/, "") === column.key;
  const direction = !isSorted ? "none" : sort.startsWith("-") ? "descending" : "ascending";
  const next = isSorted && direction === "ascending" ? `-${column.key}` : column.key;
  return h(
    "th",
    {
      scope: "col",
      role: "columnheader",
      class: `c-${column.key}${column.number ? " number" : ""}`,
      "aria-sort": direction,
    },
    h(
      "button",
      {
        type: "button",
        "data-sort": column.key,
        onclick: () => {
          setFilters({ sort: next === DEFAULT_SORT ? null : next });
          head.querySelector(`[data-sort="${column.key}"]`).focus();
        },
      },
      column.label,
      h(
        "span",
        { class: "arrow", "aria-hidden": "true" },
        direction === "none" ? "" : direction === "ascending" ? "↑" : "↓",
      ),
    ),
  );
}

function rowHeight() {
  return parseFloat(getComputedStyle(table).getPropertyValue("--row")) || 36;
}

function range() {
  if (printing) return { from: 0, to: Math.min(visible.length, PRINTED) };
  const tall = rowHeight();
  const above = -body.getBoundingClientRect().top;
  const from = Math.max(Math.floor(above / tall) - MARGIN, 0);
  const to = Math.ceil((above + window.innerHeight) / tall) + MARGIN;
  return { from: Math.min(from, visible.length), to: Math.min(Math.max(to, MARGIN), visible.length) };
}

function drawRows(always) {
  const next = range();
  if (!always && next.from === drawn.from && next.to === drawn.to) return;
  drawn = next;
  const held = body.contains(document.activeElement) ? active : null;
  const state = currentState();
  const tall = rowHeight();
  fill(
    body,
    spacer(next.from * tall),
    visible.slice(next.from, next.to).map((row, offset) => line(row, next.from + offset, state)),
    spacer((visible.length - next.to) * tall),
    visible.length === 0 &&
      h(
        "tr",
        { role: "row" },
        h(
          "td",
          { role: "cell", class: "empty", colspan: COLUMNS.length },
          ROWS.length === 0 ? "No rollout has ended in this run." : "No rollout matches.",
        ),
      ),
    printing &&
      visible.length > PRINTED &&
      h(
        "tr",
        {},
        h("td", { colspan: COLUMNS.length }, `and ${visible.length - PRINTED} more, which are not printed`),
      ),
  );
  if (held !== null) linkOf(held)?.focus({ preventScroll: true });
}

function spacer(height) {
  return (
    height > 0 &&
    h(
      "tr",
      { class: "spacer", "aria-hidden": "true" },
      h("td", { colspan: COLUMNS.length, css: { height: `${height}px` } }),
    )
  );
}

function line(row, place, state) {
  return h(
    "tr",
    {
      role: "row",
      "aria-rowindex": String(place + 2),
      "data-number": row.number,
      class: row === active ? "active" : null,
      onclick: (event) => {
        if (!event.target.closest("a") && String(getSelection()) === "") openRow(row);
      },
    },
    COLUMNS.map((column) =>
      h(
        "td",
        { role: "cell", class: `c-${column.key}${column.number ? " number" : ""}` },
        column.cell(row, state),
      ),
    ),
  );
}

function linkOf(row) {
  return body.querySelector(`tr[data-number="${row.number}"] a`);
}

// Moves the keyboard's place by a number of rows, and brings it into view.
function move(by) {
  if (visible.length === 0) return;
  const from = active === null ? -1 : visible.indexOf(active);
  goTo(visible[Math.min(Math.max(from === -1 ? 0 : from + by, 0), visible.length - 1)]);
}

function goTo(row) {
  active = row;
  const tall = rowHeight();
  const top = body.getBoundingClientRect().top + window.scrollY + visible.indexOf(row) * tall;
  const covered = toolbar.offsetHeight + head.offsetHeight + 8;
  if (top - window.scrollY < covered) window.scrollTo(0, top - covered);
  else if (top + tall > window.scrollY + window.innerHeight)
    window.scrollTo(0, top + 2 * tall - window.innerHeight);
  drawRows(true);
  linkOf(row)?.focus({ preventScroll: true });
}

function toRollouts() {
  document.getElementById("rollouts").scrollIntoView({ block: "start" });
}

body.addEventListener("focusin", (event) => {
  const number = event.target.closest("tr")?.dataset.number;
  if (number === undefined || active?.number === Number(number)) return;
  body.querySelector("tr.active")?.classList.remove("active");
  active = ROWS[Number(number)];
  event.target.closest("tr").classList.add("active");
});
