// Figures: small, quiet, and with their numbers as text for whoever does not see them.

const OUTCOMES = ["passed", "failed", "error", "skipped"];

function verdictWord(verdict, count) {
  return verdict === "error" && count !== 1 ? "errors" : verdict;
}

function verdictWords(counts) {
  return OUTCOMES.filter((verdict) => counts[verdict])
    .map((verdict) => `${counts[verdict]} ${verdictWord(verdict, counts[verdict])}`)
    .join(", ");
}

function verdictBar(counts) {
  const total = OUTCOMES.reduce((sum, verdict) => sum + (counts[verdict] ?? 0), 0);
  const words = verdictWords(counts);
  const parts = OUTCOMES.filter((verdict) => counts[verdict]).map((verdict) =>
    h("span", { class: verdict, css: { "flex-grow": String(counts[verdict] / total) } }),
  );
  return h(
    "span",
    { class: "verdict-bar", role: "img", "aria-label": words, title: words },
    parts,
  );
}

const PLOT = { width: 420, height: 150, left: 4, right: 4, top: 14, bottom: 20 };

function rewardHistogram(data) {
  const { low, high, bins } = data;
  const sums = bins.map((bin) => Object.values(bin).reduce((a, b) => a + b, 0));
  const tallest = Math.max(...sums);
  const inner = { width: PLOT.width - PLOT.left - PLOT.right, height: PLOT.height - PLOT.top - PLOT.bottom };
  const base = PLOT.top + inner.height;
  const slot = inner.width / bins.length;
  const edge = (number) => shown(Number((low + ((high - low) * number) / bins.length).toPrecision(3)));
  const bars = bins.flatMap((bin, number) => {
    let y = base;
    return ["passed", "failed"]
      .filter((verdict) => bin[verdict])
      .map((verdict) => {
        const tall = Math.max((bin[verdict] / tallest) * inner.height, 2);
        y -= tall;
        const label = `${edge(number)} to ${edge(number + 1)}: ${bin[verdict]} ${verdict}`;
        const place = { x: PLOT.left + number * slot + 1, y, width: slot - 2, height: tall, rx: 1 };
        return svg("rect", { class: verdict, ...place }, svg("title", {}, label));
      });
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) =>
    svg(
      "text",
      {
        x: PLOT.left + part * inner.width,
        y: PLOT.height - 5,
        "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle",
      },
      edge(part * bins.length),
    ),
  );
  const words = bins
    .map((_, number) => number)
    .filter((number) => sums[number])
    .map((number) => `${sums[number]} from ${edge(number)} to ${edge(number + 1)}`);
  return svg(
    "svg",
    {
      class: "histogram",
      viewBox: `0 0 ${PLOT.width} ${PLOT.height}`,
      role: "img",
      "aria-label": `Rewards: ${words.join("; ")}`,
    },
    svg("line", { class: "grid", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: PLOT.top, y2: PLOT.top }),
    svg(
      "text",
      { x: PLOT.width - PLOT.right, y: PLOT.top - 4, "text-anchor": "end" },
      counted(tallest, "rollout"),
    ),
    bars,
    svg("line", { class: "axis", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: base, y2: base }),
    ticks,
  );
}

// A mean as a dot between the ends of its interval, on the scale of the rewards that there are.
function intervalMark(mean, interval, scale) {
  const width = 120;
  const x = (value) => 4 + ((value - scale.low) / (scale.high - scale.low || 1)) * (width - 8);
  return svg(
    "svg",
    { class: "interval", viewBox: `0 0 ${width} 16`, "aria-hidden": "true" },
    svg("line", { class: "axis", x1: 4, x2: width - 4, y1: 8, y2: 8 }),
    interval && svg("line", { class: "range", x1: x(interval[0]), x2: x(interval[1]), y1: 8, y2: 8 }),
    svg("circle", { cx: x(mean), cy: 8, r: 4 }),
  );
}

const STAGES = {
  resolve: "resolve",
  fetch: "fetch files",
  load: "load task",
  build: "make image",
  start: "start sandbox",
  healthcheck: "health check",
  agent_setup: "set up agent",
  agent: "agent",
  verify: "verifier",
  collect: "collect logs",
  stop: "remove sandbox",
  worker: "worker",
};

function stageName(stage) {
  return Object.hasOwn(STAGES, stage) ? STAGES[stage] : String(stage);
}

// At which stage an error happened, and whose it is.
function whereOf(error) {
  return `· stage: ${stageName(error.stage)} · kind: ${error.kind}`;
}

function bar(part, of, className) {
  const share = of > 0 ? Math.max(part / of, 0.004) : 0;
  return h(
    "span",
    { class: `bar ${className ?? ""}`, "aria-hidden": "true" },
    h("span", { css: { width: `${share * 100}%` } }),
  );
}

function stageTable(stages) {
  const most = Math.max(...stages.map((stage) => stage.total));
  return h(
    "table",
    { class: "stages" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Stage", "", "Median", "Total"].map((label) =>
          h("th", { scope: "col" }, label || h("span", { class: "hidden" }, "Share")),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      stages.map((stage) =>
        h(
          "tr",
          { title: `reached by ${counted(stage.count, "rollout")}` },
          h("th", { scope: "row" }, stageName(stage.stage)),
          h("td", { class: "wide" }, bar(stage.total, most)),
          h("td", { class: "number" }, seconds(stage.median)),
          h("td", { class: "number" }, seconds(stage.total)),
        ),
      ),
    ),
  );
}
