// The data, and which of its rows are shown in which order.

const DATA = JSON.parse(document.getElementById("index").textContent);
const VERDICTS = ["error", "failed", "skipped", "passed"];
const CHANGES = ["broken", "changed", "fixed", "new", "excluded", "unchanged"];

const timesSeen = new Map(); // more than one test may run the same task with the same agent

function placeOf(row) {
  const place = `${row.agent}:${row.attempt}`;
  const key = JSON.stringify([row.environment, row.task, place]);
  timesSeen.set(key, (timesSeen.get(key) ?? 0) + 1);
  const test = timesSeen.get(key);
  return { test, at: test === 1 ? place : `${place}:${test}` };
}

const ROWS = DATA.rows.map((row, number) => ({
  ...row,
  ...placeOf(row),
  number,
  id: `${row.environment}::${row.task}`,
  text: [row.environment, row.task, row.agent, row.verdict, row.message, row.error].join("\n").toLowerCase(),
}));

const SEVERAL = {
  environment: new Set(ROWS.map((row) => row.environment)).size > 1,
  agent: new Set(ROWS.map((row) => row.agent)).size > 1,
  attempt: ROWS.some((row) => row.attempt > 1),
};

function details(row) {
  const block = document.getElementById(`rollout-${row.number}`);
  return block === null ? null : JSON.parse(block.textContent);
}

function siblings(id) {
  return ROWS.filter((row) => row.id === id).sort(
    (a, b) => compareTexts(a.agent, b.agent) || a.attempt - b.attempt || a.test - b.test,
  );
}

const FILTERS = {
  q: (row, value) =>
    value
      .toLowerCase()
      .split(/\s+/)
      .every((word) => row.text.includes(word)),
  verdict: (row, value) => value.split(",").includes(row.verdict),
  agent: (row, value) => row.agent === value,
  env: (row, value) => row.environment === value,
  error: (row, value) => row.error === value,
  flaky: (row) => row.flaky,
  changed: (row) => CHANGES.slice(0, 3).includes(row.change),
  quarantine: (row) => row.quarantine,
  retried: (row) => row.tries > 1,
};

// `without` leaves one filter out, to count what its values would show.
function matching(state, without) {
  const active = Object.entries(FILTERS).filter(([name]) => name !== without && state.get(name));
  return ROWS.filter((row) => active.every(([name, test]) => test(row, state.get(name))));
}

const collator = new Intl.Collator("en", { numeric: true });

function compareTexts(a, b) {
  return collator.compare(String(a ?? ""), String(b ?? ""));
}

const ORDERS = {
  verdict: (a, b) => VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict),
  task: (a, b) => compareTexts(a.task, b.task),
  environment: (a, b) => compareTexts(a.environment, b.environment),
  agent: (a, b) => compareTexts(a.agent, b.agent),
  attempt: (a, b) => a.attempt - b.attempt,
  seconds: (a, b) => a.seconds - b.seconds,
  change: (a, b) => CHANGES.indexOf(a.change) - CHANGES.indexOf(b.change),
  message: (a, b) => compareTexts(a.message, b.message),
};

// A row without a reward comes last in either direction: it is not a low one.
function byReward(a, b, direction) {
  if (a.reward === null || b.reward === null) return (a.reward === null) - (b.reward === null);
  return direction * (a.reward - b.reward);
}

function sorted(rows, sort) {
  const direction = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  const order = Object.hasOwn(ORDERS, key) ? ORDERS[key] : ORDERS.verdict;
  return rows.sort(
    (a, b) =>
      (key === "reward" ? byReward(a, b, direction) : direction * order(a, b)) ||
      ORDERS.task(a, b) ||
      ORDERS.agent(a, b) ||
      a.attempt - b.attempt ||
      a.number - b.number,
  );
}
