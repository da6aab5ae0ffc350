// What an agent did, step by step.

const OPEN_STEPS = 30;

function trajectory(found, link) {
  const steps = listOf(found.steps);
  const left = found.total - steps.length;
  return h(
    "section",
    { class: "panel trajectory" },
    h("h2", {}, "Trajectory ", h("span", { class: "muted" }, counted(found.total, "step"))),
    found.problem && h("p", { class: "muted" }, `${found.name}: ${found.problem}.`),
    (left > 0 || found.problem) &&
      cutNotice(
        left > 0 ? `${counted(left, "step")} of ${found.total} left out of this report.` : "",
        found.name,
        link,
      ),
    steps.length > 0 &&
      h(
        "details",
        { class: "log", open: steps.length <= OPEN_STEPS },
        h("summary", {}, h("code", {}, found.name)),
        h(
          "ol",
          { class: "steps" },
          steps.flatMap((step, number) => {
            const before = number === 0 ? 0 : steps[number - 1].number;
            const gap = step.number - before - 1;
            return [
              gap > 0 && h("li", { class: "gap muted" }, `${counted(gap, "step")} left out`),
              trajectoryStep(step),
            ];
          }),
        ),
      ),
  );
}

function trajectoryStep(step) {
  const source = ["system", "user", "agent", "assistant", "tool"].includes(step.source)
    ? step.source
    : "other";
  return h(
    "li",
    { class: `step ${source}` },
    h(
      "p",
      { class: "step-head" },
      h("span", { class: "muted number" }, `#${step.number}`),
      h("b", {}, step.source),
      listOf(step.facts).map(([name, value]) =>
        h(
          "span",
          { class: "muted tiny" },
          name === "timestamp" || name === "model_name" ? value : `${name.replaceAll("_", " ")} ${value}`,
        ),
      ),
    ),
    step.reasoning &&
      h(
        "details",
        { class: "reasoning" },
        h("summary", {}, "Reasoning"),
        h("div", { class: "words" }, step.reasoning),
      ),
    step.message && h("div", { class: "words" }, step.message),
    listOf(step.calls).map(([name, text]) =>
      h(
        "div",
        { class: "call" },
        h("p", {}, h("span", { class: "muted" }, "calls "), h("code", {}, name)),
        text && pre(text, `Arguments of ${name}`),
      ),
    ),
    listOf(step.results).map((text) =>
      h(
        "div",
        { class: "result" },
        h("p", { class: "muted tiny" }, "result"),
        pre(text || "(empty)", "Result"),
      ),
    ),
  );
}
