// Scores of each environment and agent.

// The columns that say something in this run; each has its numbers from the aggregate that all reports share.
const SCORES = [
  { label: "Environment", when: () => SEVERAL.environment, cell: (score) => score.environment, name: true },
  { label: "Agent", cell: (score) => score.agent, name: true },
  {
    label: "Scored",
    cell: (score) => [
      score.scored.toLocaleString("en"),
      h("span", { class: "muted" }, ` of ${score.total.toLocaleString("en")}`),
    ],
  },
  { label: "Mean reward", cell: meanReward },
  { label: "Errors as 0", cell: (score) => fixed(score.mean_errors_as_0) },
  { label: "Passed", cell: passRate },
  { label: "Attempts", when: () => DATA.scores.some((score) => score.attempts > 1), cell: passing },
  { label: "Cost", when: () => DATA.scores.some((score) => score.cost !== null), cell: cost },
  { label: "Verdicts", cell: verdictCell, wide: true },
];

function scoreTable() {
  if (DATA.scores.length === 0) return null;
  const columns = SCORES.filter((column) => !column.when || column.when());
  return h(
    "section",
    { class: "panel scores" },
    h("h2", {}, "Scores"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map((column) => h("th", { scope: "col" }, column.label)),
          ),
        ),
        h(
          "tbody",
          {},
          DATA.scores.map((score) =>
            h(
              "tr",
              {},
              columns.map((column) =>
                h(
                  column.name ? "th" : "td",
                  {
                    scope: column.name ? "row" : null,
                    class: column.name ? "name" : column.wide ? "bar-cell" : "number",
                    "data-label": column.label,
                  },
                  h("span", {}, column.cell(score)),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "muted tiny" },
      "Means are over scored rollouts: one without a reward is an error, never a 0. Ranges are intervals of 95%; that of the mean draws tasks, as attempts of one task are not independent.",
    ),
  );
}

function fixed(value) {
  return value === null ? "–" : value.toFixed(3);
}

function rangeWords(estimate) {
  return h("span", { class: "muted tiny" }, `${estimate.low.toFixed(2)} to ${estimate.high.toFixed(2)}`);
}

function meanReward(score) {
  const estimate = score.mean_over_tasks;
  if (score.mean === null) return "–";
  const isMany = estimate !== null && estimate.n > 1;
  const tells = isMany && estimate.low < estimate.high; // values that are all equal do not tell how they scatter
  return h(
    "span",
    {
      class: "mean",
      title: estimate && `mean over ${counted(estimate.n, "task")}: ${fixed(estimate.value)}`,
    },
    h("b", {}, fixed(score.mean)),
    isMany && intervalMark(estimate.value, [estimate.low, estimate.high], DATA.histogram),
    tells && rangeWords(estimate),
  );
}

function passRate(score) {
  const estimate = score.pass_rate;
  if (estimate === null) return "–";
  return h(
    "span",
    { class: "mean", title: `${score.counts.passed} of ${estimate.n} scored` },
    `${(100 * estimate.value).toFixed(0)}%`,
    estimate.n > 1 &&
      h(
        "span",
        { class: "muted tiny" },
        `${(100 * estimate.low).toFixed(0)} to ${(100 * estimate.high).toFixed(0)}%`,
      ),
  );
}

function passing(score) {
  const last = score.passing.at(-1);
  if (score.attempts < 2 || last === undefined) return "–";
  const all = score.passing.map(
    (each) =>
      `k=${each.k}: pass@k ${fixed(each.at_least_one)}, pass^k ${fixed(each.all_of_them)}, ${counted(each.tasks, "task")}`,
  );
  return h(
    "span",
    { class: "passing", title: all.join("\n") },
    h("span", {}, h("span", { class: "muted" }, `pass@${last.k} `), fixed(last.at_least_one)),
    h("span", {}, h("span", { class: "muted" }, `pass^${last.k} `), fixed(last.all_of_them)),
    last.tasks < score.tasks &&
      h("span", { class: "muted tiny" }, `${last.tasks} of ${counted(score.tasks, "task")}`),
  );
}

function cost(score) {
  return score.cost === null
    ? "–"
    : h(
        "span",
        { title: `said by ${score.cost_known} of ${counted(score.total, "rollout")}` },
        `$${score.cost.toFixed(2)}`,
      );
}

function verdictCell(score) {
  return [
    verdictBar(score.counts),
    h(
      "span",
      { class: "muted tiny" },
      verdictWords(score.counts),
      score.quarantined > 0 && `, ${score.quarantined} of them in quarantine`,
    ),
  ];
}
