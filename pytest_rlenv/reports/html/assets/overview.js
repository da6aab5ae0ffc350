// The run at a glance: what ran, how it scored, where the time went, what broke.

function overview() {
  return h(
    "div",
    { class: "overview" },
    runHeading(),
    problems(),
    comparison(),
    scoreTable(),
    h(
      "div",
      { class: "panels" },
      DATA.histogram && panel("Rewards", rewardHistogram(DATA.histogram), legend()),
      DATA.stages.length > 0 && panel("Time per stage", stageTable(DATA.stages)),
      DATA.errors.length > 0 && panel("Errors, the commonest first", errorList()),
      flakyList(),
    ),
    facts(),
  );
}

function panel(title, ...content) {
  return h("section", { class: "panel" }, h("h2", {}, title), content);
}

function totals() {
  const counts = {};
  for (const row of ROWS) counts[row.verdict] = (counts[row.verdict] ?? 0) + 1;
  return counts;
}

function runHeading() {
  const counts = totals();
  const { started, seconds: took } = DATA.times;
  const words = [
    started && moment(started),
    took !== null && seconds(took),
    ...DATA.facts
      .filter(([label]) => ["agents", "model", "sandbox"].includes(label))
      .map(([, value]) => value),
  ];
  return h(
    "section",
    { class: "run" },
    h("h1", { class: "title" }, DATA.title),
    h(
      "p",
      { class: "byline" },
      words.filter(Boolean).map((word) => h("span", {}, word)),
    ),
    ROWS.length > 0 && verdictBar(counts),
    h(
      "p",
      { class: "verdicts" },
      OUTCOMES.map((verdict) =>
        h(
          "span",
          { class: `count ${counts[verdict] ? verdict : "none"}` },
          icon(verdict),
          h("b", {}, (counts[verdict] ?? 0).toLocaleString("en")),
          ` ${verdictWord(verdict, counts[verdict] ?? 0)}`,
        ),
      ),
    ),
  );
}

function problems() {
  const lines = [...DATA.problems];
  if (!DATA.complete)
    lines.unshift(
      "The run had not ended when this was written: it was killed, or was still going. What follows is what it had by then.",
    );
  return (
    lines.length > 0 &&
    h(
      "div",
      { class: "notice", role: "note" },
      lines.slice(0, 8).map((line) => h("p", {}, line)),
      lines.length > 8 && h("p", {}, `and ${lines.length - 8} more`),
    )
  );
}

function flakyList() {
  const found = DATA.scores.flatMap((score) => score.flaky.map((each) => ({ ...each, agent: score.agent })));
  if (found.length === 0) return null;
  return panel(
    "Flaky: attempts passed and failed",
    h(
      "ul",
      { class: "flaky" },
      found
        .slice(0, 12)
        .map((each) =>
          h(
            "li",
            {},
            h("bdi", {}, each.task),
            SEVERAL.agent && h("span", { class: "muted" }, ` ${each.agent}`),
            h("span", { class: "number" }, `${each.passed} of ${each.rate.n}`),
            rangeWords(each.rate),
          ),
        ),
    ),
    found.length > 12 &&
      h(
        "p",
        {},
        h(
          "button",
          {
            type: "button",
            class: "link",
            onclick: () => {
              setFilters({ flaky: "1" });
              toRollouts();
            },
          },
          `and ${found.length - 12} more`,
        ),
      ),
  );
}

function legend() {
  return h(
    "p",
    { class: "legend muted tiny" },
    h("span", { class: "key passed" }),
    "passed ",
    h("span", { class: "key failed" }),
    "failed",
  );
}

const CAUSES = 4; // as tall as the figures beside them

function errorList() {
  const [first, others] = [DATA.errors.slice(0, CAUSES), DATA.errors.slice(CAUSES)];
  const count = others.reduce((sum, error) => sum + error.count, 0);
  return [
    h("ul", { class: "causes" }, first.map(errorCause)),
    others.length > 0 &&
      h(
        "details",
        { class: "more" },
        h("summary", {}, `${counted(others.length, "other cause")} of ${counted(count, "error")}`),
        h("ul", { class: "causes" }, others.map(errorCause)),
      ),
  ];
}

function errorCause(error) {
  return h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: "link",
        title: "Show these rollouts",
        onclick: () => {
          setFilters({ error: error.type });
          toRollouts();
        },
      },
      h("b", { class: "number" }, error.count.toLocaleString("en")),
      h("code", {}, error.type),
    ),
    h("span", { class: "muted tiny" }, ` ${whereOf(error)}`),
    h("p", { class: "clamp", title: [error.message, error.hint].filter(Boolean).join("\n") }, error.message),
  );
}

function comparison() {
  const found = DATA.baseline;
  if (!found) return null;
  return h(
    "section",
    { class: "panel baseline" },
    h("h2", {}, "Against the baseline ", h("span", { class: "muted" }, found.name)),
    h(
      "p",
      { class: "verdicts" },
      h("b", { class: `outcome ${found.verdict.replaceAll(" ", "-")}` }, found.verdict),
      Object.entries(found.counts).map(([name, count]) =>
        h("span", { class: "count" }, h("b", {}, count.toLocaleString("en")), ` ${name}`),
      ),
    ),
    found.agents.length > 0 &&
      h(
        "ul",
        { class: "agents" },
        found.agents.map((agent) =>
          h(
            "li",
            {},
            h("b", {}, agent.name),
            h("span", { class: "number" }, `${fixed(agent.before)} → ${fixed(agent.after)}`),
            h("span", { class: "muted number" }, agent.p),
            h("span", {}, `${agent.verdict}: ${agent.words}`),
          ),
        ),
      ),
    found.lines.length > 0 && h("p", { class: "muted tiny" }, found.lines.join(" · ")),
    found.gone.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, "Only in the baseline"),
        h(
          "ul",
          {},
          found.gone.map((name) => h("li", {}, h("code", {}, name))),
        ),
      ),
  );
}

function facts() {
  return h(
    "details",
    { class: "facts" },
    h("summary", {}, "What ran, where and how"),
    h(
      "dl",
      {},
      DATA.facts.map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)]),
      DATA.times.started && [h("dt", {}, "started"), h("dd", {}, DATA.times.started)],
      DATA.times.finished && [h("dt", {}, "ended"), h("dd", {}, DATA.times.finished)],
    ),
  );
}
