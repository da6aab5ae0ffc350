// What a rollout left: checks, steps, earlier tries, logs, files; and what its agent was told.

function checksPanel(checks) {
  const failing = listOf(checks.failing);
  return h(
    "section",
    { class: "panel" },
    h(
      "h2",
      {},
      "Checks ",
      h(
        "span",
        { class: "muted" },
        `${checks.passed} passed, ${checks.failed} failed${checks.other ? `, ${checks.other} other` : ""} · ${checks.source}`,
      ),
    ),
    verdictBar({ passed: checks.passed, failed: checks.failed, skipped: checks.other }),
    failing.length > 0 &&
      h(
        "ul",
        { class: "checks" },
        failing.map((name) => h("li", {}, icon("failed"), h("code", {}, name))),
        checks.failed > failing.length &&
          h("li", { class: "muted" }, `and ${checks.failed - failing.length} more`),
      ),
  );
}

function stepsPanel(found) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Steps"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "plain-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Step", "Rewards", "Time", "Remark"].map((label) => h("th", { scope: "col" }, label)),
          ),
        ),
        h(
          "tbody",
          {},
          found.steps
            .filter(isRecord)
            .map((step) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, step.name),
                h("td", {}, rewardWords(step.rewards)),
                h(
                  "td",
                  { class: "number" },
                  seconds(Object.values(step.stages ?? {}).reduce((a, b) => a + b, 0)),
                ),
                h("td", {}, step.error?.message ?? step.gate ?? ""),
              ),
            ),
        ),
      ),
    ),
  );
}

function rewardWords(rewards) {
  return isRecord(rewards)
    ? Object.entries(rewards)
        .map(([key, value]) => `${key} ${shown(value)}`)
        .join(", ")
    : "–";
}

function triesPanel(tries) {
  return h(
    "section",
    { class: "panel" },
    h(
      "h2",
      {},
      "Earlier tries ",
      h("span", { class: "muted" }, "ended by an error and repeated in a fresh sandbox"),
    ),
    h(
      "ol",
      { class: "tries" },
      tries
        .filter(isRecord)
        .map((each) =>
          h(
            "li",
            {},
            h("code", {}, each.error?.type),
            h(
              "span",
              { class: "muted" },
              ` in ${stageName(each.error?.stage)} after ${seconds(each.seconds)}`,
            ),
            h(
              "p",
              {},
              each.error?.message,
              each.link && [
                " ",
                h("a", { href: `${each.link}/`, target: "_blank", rel: "noopener" }, "its logs"),
              ],
            ),
          ),
        ),
    ),
  );
}

// A log's end, with what was cut of it and where all of it is.
function logs(title, found, link, open) {
  if (found.length === 0) return null;
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, title),
    found.map((log, number) => {
      const text = pre(log.text || "(empty)", log.name);
      const toEnd = () => (text.scrollTop = text.scrollHeight);
      requestAnimationFrame(toEnd); // what matters is mostly the last thing that was said
      return h(
        "details",
        { class: "log", open: open && number === 0, ontoggle: toEnd },
        h("summary", {}, h("code", {}, log.name), h("span", { class: "muted tiny" }, bytes(log.size))),
        log.cut > 0 &&
          cutNotice(`This is the end, ${bytes(log.size - log.cut)} of ${bytes(log.size)}.`, log.name, link),
        text,
      );
    }),
  );
}

function cutNotice(words, name, link) {
  return h("p", { class: "cut" }, words, " ", fileLink(name, link, "The whole file"));
}

function fileLink(name, link, label) {
  if (!link) return h("span", {}, label ? `${label}: ${name}` : name);
  const address = `${link}/${name.split("/").map(encodeURIComponent).join("/")}`;
  return h("a", { href: address, target: "_blank", rel: "noopener" }, label ?? name);
}

function instruction(step, text, cut, count) {
  const title = step ? `Instruction of step ${step}` : "Instruction";
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, title),
    h(
      "details",
      { class: "log", open: count === 1 },
      h("summary", {}, "What the agent was told"),
      h("pre", { class: "prose", tabindex: "0", role: "region", "aria-label": title }, text),
      cut > 0 && h("p", { class: "cut" }, `The last ${bytes(cut)} are left out of this report.`),
    ),
  );
}

function filesPanel(evidence, link) {
  const files = listOf(evidence.files);
  if (files.length === 0) return null;
  const artifacts = files.filter(([name]) => /^(steps\/[^/]+\/)?artifacts\//.test(name));
  const others = files.filter((file) => !artifacts.includes(file));
  const list = (some) =>
    h(
      "ul",
      { class: "files" },
      some.map(([name, size]) =>
        h("li", {}, fileLink(name, link), h("span", { class: "muted tiny" }, bytes(size))),
      ),
    );
  return [
    artifacts.length > 0 &&
      h(
        "section",
        { class: "panel" },
        h("h2", {}, "Artifacts ", h("span", { class: "muted" }, artifacts.length)),
        list(artifacts),
      ),
    h(
      "section",
      { class: "panel" },
      h(
        "details",
        {},
        h("summary", {}, h("h2", {}, "Files ", h("span", { class: "muted" }, others.length))),
        list(others),
        evidence.more_files && h("p", { class: "muted" }, "and more, in the rollout's folder"),
      ),
      link &&
        h(
          "p",
          { class: "tiny" },
          h("a", { href: `${link}/`, target: "_blank", rel: "noopener" }, "The rollout's folder"),
        ),
    ),
  ];
}
