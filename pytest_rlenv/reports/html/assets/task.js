// The page of one task: its rollouts as tabs, and all that is known of the chosen one.

function drawTask(state) {
  const rollouts = siblings(state.get("task"));
  const row = rollouts.find((each) => each.at === state.get("at")) ?? rollouts[0];
  if (row === undefined)
    return h(
      "div",
      { class: "task" },
      backButton(),
      h("p", { class: "notice" }, `There is no task ${state.get("task")} in this run.`),
    );
  active = row;
  const found = details(row);
  return h(
    "article",
    { class: "task" },
    taskHeading(row, state),
    rollouts.length > 1 && tabs(rollouts, row, state),
    found === null
      ? h("p", { class: "muted", role: "status" }, "The rest of the file is being read …")
      : rolloutPage(row, found),
  );
}

function backButton() {
  return h(
    "button",
    { type: "button", class: "plain", onclick: leaveTask, "aria-keyshortcuts": "Escape" },
    "← All rollouts",
  );
}

function taskHeading(row, state) {
  const order = sorted(matching(state), state.get("sort") ?? DEFAULT_SORT);
  const place = order.indexOf(row);
  const step = (by, label) => {
    const other = place === -1 ? undefined : order[place + by];
    return h(
      "button",
      {
        type: "button",
        class: "plain",
        disabled: other === undefined,
        onclick: () => openRow(other),
        "aria-label": `${label} rollout`,
        title: `${label} rollout (${by < 0 ? "k" : "j"})`,
      },
      by < 0 ? "↑" : "↓",
    );
  };
  return h(
    "header",
    { class: "task-heading" },
    h(
      "nav",
      { class: "task-nav", "aria-label": "Rollouts" },
      backButton(),
      h("span", { class: "muted" }, place === -1 ? "" : `${place + 1} of ${order.length}`),
      step(-1, "Previous"),
      step(1, "Next"),
    ),
    h("p", { class: "muted tiny" }, h("bdi", {}, row.environment)),
    h("h1", { class: "title" }, h("bdi", {}, row.task)),
  );
}

function tabs(rollouts, chosen, state) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Attempts of this task" },
    rollouts.map((row) =>
      h(
        "a",
        { href: addressOfRow(state, row), class: "tab", "aria-current": row === chosen ? "page" : null },
        h("span", { class: `badge ${row.verdict}` }, icon(row.verdict)),
        h("span", { class: "hidden" }, `${row.verdict}: `),
        row.agent,
        SEVERAL.attempt && h("span", { class: "muted" }, ` #${row.attempt}`),
        row.test > 1 && h("span", { class: "muted" }, ` test ${row.test}`),
        h("span", { class: "number" }, shown(row.reward)),
      ),
    ),
  );
}

function rolloutPage(row, found) {
  const evidence = found.evidence;
  const texts = Object.entries(evidence.instructions);
  return h(
    "div",
    { class: "columns" },
    h(
      "div",
      { class: "primary" },
      verdictPanel(row, found),
      found.checks && checksPanel(found.checks),
      listOf(found.steps).length > 0 && stepsPanel(found),
      listOf(found.tries).length > 0 && triesPanel(found.tries),
      logs("Verifier output", evidence.verifier, found.link, row.verdict !== "passed"),
      logs(
        "Agent logs",
        evidence.agent,
        found.link,
        row.verdict !== "passed" && evidence.trajectories.length === 0,
      ),
      evidence.trajectories.map((each) => trajectory(each, found.link)),
      texts.map(([step, [text, cut]]) => instruction(step, text, cut, texts.length)),
      evidence.problem && h("p", { class: "muted" }, `${evidence.problem}.`),
    ),
    h(
      "aside",
      { class: "secondary", "aria-label": "Facts" },
      row.change && baselinePanel(row),
      rewardsPanel(row, found),
      stagesPanel(row, found),
      factsPanel(row, found),
      filesPanel(evidence, found.link),
    ),
  );
}

function verdictPanel(row, found) {
  const error = found.error;
  const expected =
    found.expected &&
    `${found.expected}${found.expected_by && !["default", "threshold"].includes(found.expected_by) ? `, by ${found.expected_by}` : ""}`;
  return h(
    "section",
    { class: `panel verdict ${row.verdict}`, "aria-label": "Verdict" },
    h(
      "p",
      { class: "verdict-line" },
      badge(row.verdict),
      row.flaky && h("span", { class: "tag" }, "flaky"),
      h("span", {}, "reward ", h("b", {}, shown(row.reward))),
      expected && h("span", { class: "muted" }, "expected ", h("code", {}, expected)),
    ),
    isRecord(error) ? errorText(error) : found.message && h("p", { class: "message" }, found.message),
    row.quarantine && found.message !== row.message && h("p", { class: "muted" }, row.message),
    listOf(found.notes)
      .filter(isRecord)
      .map((note) => h("p", { class: "note" }, h("code", {}, note.code), ` ${note.text}`)),
    found.more_notes > 0 &&
      h("p", { class: "muted" }, `and ${counted(found.more_notes, "more note", "more notes")}`),
  );
}

function errorText(error) {
  return [
    h("p", { class: "muted tiny" }, h("code", {}, error.type), ` ${whereOf(error)}`),
    h("p", { class: "message" }, error.message),
    error.hint && h("p", { class: "hint" }, h("b", {}, "What to do: "), error.hint),
    error.detail && pre(error.detail, "Evidence"),
  ];
}

function pre(text, label) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
}
