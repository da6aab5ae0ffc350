// What is known of a rollout in a few words and numbers, beside its evidence.

function baselinePanel(row) {
  const { before, after } = row;
  const arrow = (a, b) => (a === b ? a : `${a} → ${b}`);
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Against the baseline"),
    h(
      "p",
      {},
      h("span", { class: `change ${row.change}` }, row.change),
      row.reason && h("span", { class: "muted" }, `: ${row.reason}`),
    ),
    before &&
      after &&
      h(
        "dl",
        { class: "pairs" },
        h("dt", {}, "verdict"),
        h("dd", {}, arrow(before.verdict, after.verdict)),
        h("dt", {}, "reward"),
        h("dd", { class: "number" }, arrow(shown(before.reward), shown(after.reward))),
        h("dt", {}, "time"),
        h("dd", { class: "number" }, arrow(seconds(before.seconds), seconds(after.seconds))),
      ),
  );
}

function rewardsPanel(row, found) {
  const entries = Object.entries(isRecord(found.rewards) ? found.rewards : {});
  if (entries.length < 2) return null;
  const judged = found.reward_key ?? "reward";
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Rewards"),
    h(
      "dl",
      { class: "pairs" },
      entries.map(([key, value]) => [
        h("dt", {}, h("bdi", {}, key), key === judged && h("span", { class: "tag" }, "judged")),
        h("dd", { class: "number" }, shown(value)),
      ]),
    ),
  );
}

function stagesPanel(row, found) {
  const stages = Object.entries(isRecord(found.stages) ? found.stages : {});
  if (stages.length === 0) return null;
  const most = Math.max(...stages.map(([, spent]) => spent));
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Time ", h("span", { class: "muted" }, seconds(row.seconds))),
    h(
      "table",
      { class: "stages" },
      h(
        "tbody",
        {},
        stages.map(([stage, spent]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, stageName(stage)),
            h("td", { class: "wide" }, bar(spent, most)),
            h("td", { class: "number" }, seconds(spent)),
          ),
        ),
      ),
    ),
  );
}

function commandWords(command) {
  if (!isRecord(command)) return null;
  return command.timed_out
    ? `killed at its time limit, after ${seconds(command.seconds)}`
    : `exit code ${command.exit_code}, ${seconds(command.seconds)}, ${bytes(command.output_bytes ?? 0)} of output`;
}

function factsPanel(row, found) {
  const usage = Object.entries(isRecord(found.usage) ? found.usage : {}).filter(
    ([, value]) => !isRecord(value) && !Array.isArray(value),
  );
  const pairs = [
    ["test", found.node, true],
    ["agent", `${row.agent}${found.agent_version ? ` ${found.agent_version}` : ""}`],
    ["model", found.model],
    ["attempt", SEVERAL.attempt ? row.attempt : null],
    ["agent's command", commandWords(found.agent_command)],
    ["verifier's command", commandWords(found.verifier_command)],
    ["verifier's box", found.verifier_level],
    ["framework", found.framework],
    ["sandbox", found.sandbox],
    ["run by", found.runner],
    ["image", found.image, true],
    ["verifier's image", found.verifier_image, true],
    ["task digest", found.task_digest, true],
    ["started", found.started_at && moment(found.started_at)],
    ["taken over from run", found.resumed_from?.run],
    [
      "run again",
      found.run_again && `not taken over from run ${found.run_again.run}: ${found.run_again.reason}`,
    ],
    ["pytest's outcome", found.outcome !== row.verdict ? found.outcome : null],
    ...usage,
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Facts"),
    h(
      "dl",
      { class: "pairs" },
      pairs.map(([label, value, code]) => [
        h("dt", {}, label),
        h("dd", {}, code ? h("code", {}, value) : value),
      ]),
    ),
  );
}
