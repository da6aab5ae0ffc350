"""The document: no text can act, the policy fits the script, and a torn run is shown as far as it goes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.report_runs import FACTS, broken, failed, leave, passed, write_run

from pytest_rlenv.__main__ import main
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.html import check_target, document, write_html
from pytest_rlenv.reports.html.document import embed, plain

ASSETS = Path(document.__file__).parent / "assets"
BLOCK = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>')

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def written(run: Path, baseline: Path | None = None) -> tuple[dict, list[dict], str]:
    """Write a report and return its index, its details and its text."""
    target = run.parent / "report.html"
    write_html(run, target, baseline)
    text = target.read_text(encoding="utf-8")
    blocks = {name: json.loads(content) for name, content in BLOCK.findall(text)}
    return blocks.pop("index"), list(blocks.values()), text


@given(values)
def test_embedded_data_is_the_data_and_ends_no_block(value: object) -> None:
    text = embed(value)
    assert not set(text) & set("<>&")
    assert text.isascii()
    assert json.loads(text) == plain(value)


def test_what_json_does_not_know_is_text() -> None:
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    assert json.loads(embed([float("nan"), float("-inf"), Path("a"), "\ud800"])) == [
        "nan",
        "-inf",
        "a",
        "\ud800",
    ]
    assert "nested too deeply" in embed(deep)


def test_the_policy_lets_our_script_and_styles_act_and_nothing_else(tmp_path: Path) -> None:
    _, _, text = written(write_run(tmp_path / "run", [passed("a")]))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)

    def allowed(content: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    assert policy == (
        f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_script_parses_no_text_as_html_and_no_text_as_code() -> None:
    text = "".join(path.read_text() for path in ASSETS.glob("*.js"))
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
        "srcdoc",
    ):
        assert word not in text
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), "nothing is fetched"


def test_every_asset_is_used() -> None:
    named = {f"{name}.js" for name in document.SCRIPTS} | {f"{name}.css" for name in document.STYLES}
    assert {path.name for path in ASSETS.iterdir()} == named | {"report.html"}


def test_a_title_is_escaped(tmp_path: Path) -> None:
    index, _, text = written(write_run(tmp_path / "run", [passed("a", environment="<b>&", revision=None)]))
    assert index["title"] == "<b>&"
    assert "<title>&lt;b&gt;&amp; - rlenv</title>" in text


def test_numbers_are_those_of_the_aggregate(tmp_path: Path) -> None:
    records = [passed("a"), failed("b", 0.4), broken("c"), passed("d", agent="nop", reward=0.0)]
    index, details, _ = written(write_run(tmp_path / "run", records))
    nop, oracle = index["scores"]
    assert (oracle["agent"], oracle["scored"], oracle["total"]) == ("oracle", 2, 3)
    assert oracle["mean"] == pytest.approx(0.7)
    assert oracle["mean_errors_as_0"] == pytest.approx(1.4 / 3)
    assert oracle["pass_rate"]["n"] == 2
    assert nop["mean"] == 0.0
    assert [row["reward"] for row in index["rows"]] == [1.0, 0.4, None, 0.0]
    assert [each["node"] for each in details] == [record["node"] for record in records]


def test_attempts_of_one_task_that_differ_are_flaky(tmp_path: Path) -> None:
    records = [passed("a", attempt=1), failed("a", attempt=2), passed("b", attempt=1), passed("b", attempt=2)]
    index, _, _ = written(write_run(tmp_path / "run", records))
    assert [(row["task"], row["flaky"]) for row in index["rows"]] == [
        ("a", True), ("a", True), ("b", False), ("b", False),
    ]  # fmt: skip
    (score,) = index["scores"]
    assert [each["k"] for each in score["passing"]] == [1, 2]


def test_a_baseline_says_what_became_of_each_row(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [failed("a"), passed("b"), passed("new")])
    before = write_run(tmp_path / "before", [passed("a"), passed("b"), passed("gone")])
    index, _, _ = written(run, before)
    assert [row["change"] for row in index["rows"]] == ["broken", "unchanged", "new"]
    assert index["rows"][0]["before"] == {"verdict": "passed", "reward": 1.0, "seconds": 18.21}
    assert index["baseline"]["counts"] == {"broken": 1, "unchanged": 1, "new": 1, "gone": 1}
    assert index["baseline"]["gone"] == ["gone"]


def test_attempts_of_the_baseline_without_a_reward_are_no_share_of_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    before = write_run(tmp_path / "before", [broken("a", attempt=1), broken("a", attempt=2)])
    index, _, _ = written(run, before)
    assert index["rows"][0]["before"]["verdict"] == "none of 2 attempts scored: error"


def test_a_killed_run_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [passed("a"), passed("b")], FACTS | {"finished_at": None})
    with (run / "results.jsonl").open("a") as file:
        file.write('{"node": "rlenv:org/repo::c", "environ')
    index, _, _ = written(run)
    assert not index["complete"]
    assert [row["task"] for row in index["rows"]] == ["a", "b"]
    assert "torn" in index["problems"][0]


@pytest.mark.parametrize(
    "facts", ["", "[]", '{"machine": 3, "settings": [], "started_at": 5, "environments": {}}', "\x00"]
)
def test_a_run_without_readable_facts_is_shown(tmp_path: Path, facts: str) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    (run / "run.json").write_text(facts)
    index, _, _ = written(run)
    assert index["rows"][0]["task"] == "a"


@pytest.mark.parametrize(
    "odd",
    [
        {"verdict": "splendid"},
        {"error": "text"},
        {"notes": [1]},
        {"error": {"type": "X"}},
        {"quarantine": {}, "notes": None},
    ],
)
def test_a_record_that_cannot_be_shown_is_told_of(tmp_path: Path, odd: dict) -> None:
    index, _, _ = written(write_run(tmp_path / "run", [passed("a"), passed("b") | odd]))
    shown = [row["task"] for row in index["rows"]]
    told = " ".join(index["problems"])
    assert shown == ["a", "b"] or "record 2" in told or "line 2 is no record" in told


@pytest.mark.parametrize(
    "odd",
    [
        {"stages": {"agent": "long"}, "tries": None, "steps": "x"},
        {"rewards": [1], "checks": [], "usage": 3, "attempt": 2},
        {"logs": 5, "started_at": [], "expected": {}, "image": {"a": 1}},
    ],
)
def test_odd_values_of_a_record_do_no_harm(tmp_path: Path, odd: dict) -> None:
    index, _, _ = written(write_run(tmp_path / "run", [passed("b") | odd]))
    assert [row["task"] for row in index["rows"]] == ["b"] or index["problems"]


def test_a_run_that_scored_nothing_has_a_report(tmp_path: Path) -> None:
    index, details, _ = written(write_run(tmp_path / "run", []))
    assert (index["rows"], index["histogram"], details) == ([], None, [])
    assert index["title"] == "org/repo@0123456789ab"


def test_links_lead_from_the_report_to_the_run(tmp_path: Path) -> None:
    record = passed("a b#c")
    run = write_run(tmp_path / "my runs" / "run", [record])
    leave(run, record, {"verifier/reward.txt": "1"})
    target = tmp_path / "site" / "deep" / "report.html"
    write_html(run, target)
    details = BLOCK.findall(target.read_text())[1][1]
    assert json.loads(details)["link"] == "./../../my%20runs/run/rollouts/a%20b%23c__oracle1"
    assert list(target.parent.iterdir()) == [target], "nothing half-written stays"


def test_an_earlier_try_leads_to_its_own_logs(tmp_path: Path) -> None:
    tries = [
        {"error": {"type": "SandboxFailed"}, "logs": logs} for logs in ("rollouts/first", "../../etc", None)
    ]
    run = write_run(tmp_path / "run", [passed("a", tries=tries)])
    leave(run, {"logs": "rollouts/first"}, {"agent/oracle.txt": "begun"})
    index, (details,), _ = written(run)
    assert index["rows"][0]["tries"] == 4
    assert [each["link"] for each in details["tries"]] == ["./run/rollouts/first", None, None]


@pytest.mark.parametrize(
    "logs", ["../outside", "/etc", "rollouts/../../outside", "", ".", "\0", "x" * 5000, 7]
)
def test_a_record_leads_nowhere_outside_its_run(tmp_path: Path, logs: object) -> None:
    (tmp_path / "outside" / "verifier").mkdir(parents=True)
    (tmp_path / "outside" / "verifier" / "test-stdout.txt").write_text("private")
    _, (details,), text = written(write_run(tmp_path / "run", [passed("a", logs=logs)]))
    assert details["link"] is None
    assert details["evidence"]["problem"]
    assert "private" not in text


def test_a_report_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file" / "report.html", tmp_path / "run"):
        with pytest.raises(SpecError, match=re.escape(str(target))):
            write_html(run, target)
        with pytest.raises(SpecError, match=re.escape(str(target))):
            check_target(target)
    check_target(tmp_path / "new" / "report.html")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(pipe.read_text, encoding="utf-8")
        check_target(pipe)
        write_html(run, pipe)
        assert text.result(timeout=60).startswith("<!")
    assert pipe.is_fifo()


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    (tmp_path / "link").symlink_to(tmp_path / "there.html")
    check_target(tmp_path / "link")
    write_html(run, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there.html").read_text().startswith("<!")


def test_the_command_writes_beside_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [passed("a")])
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    other = tmp_path / "other.html"
    assert main(["report", str(run / "results.jsonl"), "--output", str(other), "--baseline", str(run)]) == 0
    assert '"unchanged":1' in other.read_text()


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["run", "--baseline", "nothing"], ["run", "--margin", "7"]]
)
def test_the_command_names_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    write_run(tmp_path / "run", [passed("a")])
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["report", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 4
    assert arguments[-1] in capsys.readouterr().err
