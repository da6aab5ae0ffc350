"""The report as people use it, in a real browser, from disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import Viewer, tasks_shown
from support.report_runs import broken, failed, leave, passed, write_run

from pytest_rlenv.reports.html import write_html

pytestmark = pytest.mark.browser

NONE = "\u2013"
"""What stands where there is no number."""

LOG = "".join(f"line {number}\n" for number in range(400)) + "AssertionError: 12 == 14\n"
STEPS = [
    {"step_id": 1, "source": "user", "message": "Repair the totals."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "I look at the file.",
        "reasoning_content": "It may hold duplicates.",
        "tool_calls": [
            {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "head a.csv"}}
        ],
        "observation": {"results": [{"source_call_id": "1", "content": "id,total"}]},
    },
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six rollouts, its baseline, and the report of both."""
    folder = tmp_path_factory.mktemp("report")
    records = [
        passed("task-b", seconds=30.0),
        failed(
            "task-a",
            0.4,
            seconds=2.0,
            checks={"source": "ctrf.json", "passed": 3, "failed": 1, "failing": ["test_sum"]},
        ),
        broken("task-c", seconds=7.0),
        passed("task-d", agent="solver", attempt=1, reward=1.0),
        failed("task-d", 0.5, agent="solver", attempt=2),
        passed("task-e", reward=None, verdict="skipped", outcome="skipped", message="needs a GPU"),
    ]
    run = write_run(folder / "run", records)
    leave(
        run,
        records[1],
        {
            "instruction.md": "Repair the totals in report.csv.\n",
            "verifier/test-stdout.txt": LOG,
            "agent/oracle.txt": "+ python repair.py\n",
            "agent/trajectory.json": json.dumps({"schema_version": "ATIF-v1.6", "steps": STEPS}),
            "artifacts/report #1.csv": "id\n",
        },
    )
    before = write_run(
        folder / "before", [passed("task-b"), passed("task-a"), broken("task-c"), passed("gone")]
    )
    write_html(run, folder / "report.html", before)
    return folder / "report.html"


def test_the_overview_says_what_ran_and_how_it_scored(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    expect(page).to_have_title("org/repo@0123456789ab - rlenv")
    expect(page.locator("h1")).to_have_text("org/repo@0123456789ab")
    scores = page.locator(".scores tbody tr")
    expect(scores).to_have_count(2)
    expect(scores.nth(0)).to_contain_text("oracle")
    expect(scores.nth(0)).to_contain_text("2 of 4")
    expect(scores.nth(0)).to_contain_text("0.700")
    expect(scores.nth(0)).to_contain_text("0.467")
    expect(scores.nth(1)).to_contain_text("pass@2 1.000")
    expect(page.locator(".histogram rect")).to_have_count(3)
    expect(page.locator(".causes")).to_contain_text("RewardMissing")
    expect(page.locator(".flaky li")).to_contain_text("task-d")
    expect(page.locator(".baseline")).to_contain_text("1 broken")
    expect(page.locator(".overview .stages tbody tr")).to_have_count(7)


def test_the_table_is_sorted_by_its_heads(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    assert tasks_shown(page) == ["task-c", "task-a", "task-d", "task-e", "task-b", "task-d"]
    page.get_by_role("button", name="Time").click()
    assert tasks_shown(page)[0] == "task-a"
    assert tasks_shown(page)[-1] == "task-b"
    page.get_by_role("button", name="Time").click()
    assert tasks_shown(page)[0] == "task-b"
    expect(page.get_by_role("columnheader", name="Time")).to_have_attribute("aria-sort", "descending")
    assert page.url.endswith("#sort=-seconds")
    page.get_by_role("button", name="Reward", exact=True).click()
    rewards = page.locator("td.c-reward").all_inner_texts()
    assert rewards == ["0.4", "0.5", "1.0", "1.0", NONE, NONE], "what has no reward is not the lowest"
    page.get_by_role("button", name="Reward", exact=True).click()
    assert page.locator("td.c-reward").all_inner_texts() == ["1.0", "1.0", "0.5", "0.4", NONE, NONE]


FILTERED = {
    "#q=TASK-A": ["task-a"],
    "#q=verifier+reward.txt": ["task-c"],
    "#verdict=failed": ["task-a", "task-d"],
    "#verdict=failed,error": ["task-c", "task-a", "task-d"],
    "#agent=solver": ["task-d", "task-d"],
    "#flaky=1": ["task-d", "task-d"],
    "#changed=1": ["task-a"],
    "#error=RewardMissing": ["task-c"],
    "#agent=solver&verdict=error": [],
    "#sort=nonsense&unknown=1&q=task-b": ["task-b"],
    "#sort=constructor&q=task-b": ["task-b"],
}


def test_an_address_filters(viewer: Viewer, report: Path) -> None:
    for fragment, tasks in FILTERED.items():
        page = viewer.open(report, fragment)
        expect(page.get_by_role("status")).to_contain_text(f"{len(tasks)} of 6 rollouts")
        assert tasks_shown(page) == tasks, fragment


def test_filters_are_buttons_that_write_the_address(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    chip = page.get_by_role("button", name="failed 2")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    page.get_by_label("agents", exact=True).select_option("solver")
    assert page.url.endswith("#verdict=failed&agent=solver")
    assert tasks_shown(page) == ["task-d"]
    page.get_by_role("button", name="Clear").click()
    assert len(tasks_shown(page)) == 6
    page.get_by_role("button", name="1 RewardMissing").click()
    assert tasks_shown(page) == ["task-c"]


def test_a_task_shows_all_that_is_known_of_it(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    page.get_by_role("link", name="task-a").click()
    expect(page.locator("h1")).to_have_text("task-a")
    text = page.locator("main").inner_text()
    for part in (
        "reward 0.4 < 1.0",
        "expected >= 1.0",
        "3 passed, 1 failed",
        "test_sum",
        "AssertionError: 12 == 14",
        "I look at the file.",
        "head a.csv",
        "id,total",
        "Repair the totals in report.csv.",
        "1.0 → 0.4",
        "passed → failed",
        "make image",
    ):
        assert part in text, part
    log = page.get_by_role("region", name="verifier/test-stdout.txt")
    assert log.evaluate("pre => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 1"), (
        "a log is at its end"
    )
    artifact = page.get_by_role("link", name="artifacts/report #1.csv")
    address = artifact.evaluate("link => link.href")
    assert address == (report.parent / "run/rollouts/task-a__oracle1/artifacts/report #1.csv").as_uri()
    page.go_back()
    assert len(tasks_shown(page)) == 6


def test_an_error_shows_its_hint_and_evidence(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report, "#task=org/repo::task-c")
    panel = page.locator(".verdict")
    expect(panel).to_contain_text("RewardMissing")
    expect(panel).to_contain_text("What to do: the verifier exited 1; see its output")
    expect(panel).to_contain_text("no such column: total")
    expect(page.locator("main")).to_contain_text("The rollout's folder is not there")


def test_attempts_are_tabs(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report, "#task=org/repo::task-d&at=solver:2")
    tabs = page.get_by_role("navigation", name="Attempts of this task").get_by_role("link")
    expect(tabs).to_have_count(2)
    expect(tabs.nth(1)).to_have_attribute("aria-current", "page")
    expect(page.locator(".verdict")).to_contain_text("failed")
    tabs.nth(0).click()
    expect(page.locator(".verdict .badge")).to_have_text("passed")


def test_two_tests_of_the_same_task_are_two_rollouts(viewer: Viewer, tmp_path: Path) -> None:
    records = [passed("task", node="one"), failed("task", node="two")]
    write_html(write_run(tmp_path / "run", records), tmp_path / "report.html")
    page = viewer.open(tmp_path / "report.html")
    for row, node in enumerate(("two", "one")):
        page.locator("table.rollouts tbody a").nth(row).click()
        expect(page.get_by_label("Facts")).to_contain_text(node)
        page.keyboard.press("Escape")


def test_an_unknown_task_is_said_to_be_unknown(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report, "#task=org/repo::nothing")
    expect(page.locator("main")).to_contain_text("There is no task org/repo::nothing")


def test_the_keyboard_is_enough(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    focused = "document.activeElement.textContent"
    page.keyboard.press("j")
    assert page.evaluate(focused) == "task-c"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate(focused) == "task-a"
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("task-a")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_have_text("task-d")
    page.keyboard.press("Escape")
    expect(page.locator("table.rollouts")).to_be_visible()
    assert page.evaluate(focused) == "task-d", "the place in the table is kept"
    page.keyboard.press("/")
    page.keyboard.type("task-b")
    assert tasks_shown(page) == ["task-b"]
    page.keyboard.press("Escape")
    assert len(tasks_shown(page)) == 6
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


@pytest.mark.parametrize("viewer", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True)
def test_colours_follow_the_system_until_they_are_chosen(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark, light = "rgb(15, 17, 19)", "rgb(247, 247, 245)"
    system = dark if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else light
    assert page.evaluate(ground) == system
    page.get_by_role("button", name="dark colours").click()
    assert page.evaluate(ground) == dark
    page.keyboard.press("d")
    assert page.evaluate(ground) == light
    expect(page.get_by_role("button", name="light colours")).to_have_attribute("aria-pressed", "true")


def test_text_can_be_read(viewer: Viewer, report: Path) -> None:
    """Contrast of every text with what is behind it, in both colours, by WCAG's formula."""
    for fragment in ("", "#task=org/repo::task-a"):
        page = viewer.open(report, fragment)
        for theme in ("light colours", "dark colours"):
            page.get_by_role("button", name=theme).click()
            assert page.evaluate(LOW_CONTRAST) == [], (fragment, theme)


LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, :disabled, svg, option")) continue;
    const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${element.className}: ${walker.currentNode.textContent} ${ratio}`);
  }
  return low;
}"""


@pytest.mark.parametrize("viewer", [{"viewport": {"width": 360, "height": 700}}], indirect=True)
@pytest.mark.parametrize("fragment", ["", "#task=org/repo::task-a", "#verdict=failed"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    viewer: Viewer, report: Path, fragment: str
) -> None:
    page = viewer.open(report, fragment)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    tall = "[...document.querySelectorAll('.rollouts tbody tr:not(.spacer)')].map(row => row.offsetHeight)"
    assert set(page.evaluate(tall)) <= {62}, "the script reckons with one height of rows"


def test_paper_has_everything_and_nothing_to_press(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report, "#task=org/repo::task-a")
    agent_log = page.get_by_role("region", name="agent/oracle.txt")
    expect(agent_log).to_be_hidden()
    page.emulate_media(media="print")
    expect(agent_log).to_be_visible()
    expect(page.get_by_role("button", name="All rollouts")).to_be_hidden()
    assert page.locator(".log pre").first.evaluate("pre => pre.scrollHeight <= pre.clientHeight + 1")
    page.emulate_media(media="screen")
    expect(agent_log).to_be_hidden()


def test_paper_has_every_row(viewer: Viewer, tmp_path: Path) -> None:
    records = [passed(f"task-{number}") for number in range(150)]
    write_html(write_run(tmp_path / "run", records), tmp_path / "report.html")
    page = viewer.open(tmp_path / "report.html")
    rows = page.locator("table.rollouts tbody tr")
    assert rows.count() < 80
    page.emulate_media(media="print")
    expect(rows).to_have_count(150)
    page.emulate_media(media="screen")
    expect(rows).not_to_have_count(150)


def test_the_page_has_landmarks_and_names(viewer: Viewer, report: Path) -> None:
    page = viewer.open(report)
    for role in ("banner", "main", "search"):
        expect(page.get_by_role(role)).to_have_count(1)
    unnamed = page.locator("button, a, input, select").evaluate_all(
        "all => all.filter(each => !(each.textContent.trim() || each.ariaLabel)).map(each => each.outerHTML)"
    )
    assert unnamed == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"


HOSTILE = "</script><img src=x onerror=\"window.bad='yes';alert(1)\"><!-- <script>\u2028\u202e"


def test_no_text_of_a_run_becomes_a_part_of_the_page(viewer: Viewer, tmp_path: Path) -> None:
    """Ids, messages, names of rewards and files, logs, trajectory: by somebody who wants to break out."""
    names = ("task", "environment", "agent", "revision", "message", "model", "image", "expected", "node")
    record = failed("task") | dict.fromkeys(names, HOSTILE)
    record |= {
        "rewards": {HOSTILE: 0.4, "__proto__": 1.0},
        "stages": {HOSTILE: 1.0},
        "usage": {HOSTILE: HOSTILE},
        "notes": [{"code": HOSTILE, "text": HOSTILE}],
        "checks": {"source": HOSTILE, "passed": 0, "failed": 1, "other": 0, "failing": [HOSTILE]},
        "steps": [{"name": HOSTILE, "rewards": {HOSTILE: 1.0}, "gate": HOSTILE}],
        "logs": "rollouts/evil",
    }
    error = dict.fromkeys(("type", "stage", "kind", "message", "hint", "detail"), HOSTILE)
    bad = broken("other", error=error) | {"logs": "javascript:alert(1)"}
    run = write_run(tmp_path / "run", [record, bad])
    step = {
        "source": HOSTILE,
        "message": HOSTILE,
        "tool_calls": [{"function_name": HOSTILE, "arguments": HOSTILE}],
        "observation": HOSTILE,
    }
    name = "agent/<img src=x onerror=alert(2)>.txt"
    leave(
        run,
        record,
        {
            "instruction.md": HOSTILE,
            "verifier/test-stdout.txt": HOSTILE,
            name: HOSTILE,
            "agent/trajectory.json": json.dumps([step]),
        },
    )
    write_html(run, tmp_path / "report.html", run)
    page = viewer.open(tmp_path / "report.html")
    for verdict in ("failed", "error"):
        page.locator(f"tr:has(.badge.{verdict}) td a").click()
        expect(page.locator(".verdict")).to_be_visible()
        page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
        assert page.locator("img").count() == 0
        addresses = page.locator("a").evaluate_all("all => all.map(each => each.protocol)")
        assert set(addresses) == {"file:"}
        page.keyboard.press("Escape")
    assert page.evaluate("window.bad") is None
    assert page.locator("script").count() == 4, "index, script, and two rollouts"


def test_what_the_policy_forbids_is_forbidden(viewer: Viewer, report: Path) -> None:
    """Were a text to become a part of the page all the same, the browser would not act on it."""
    page = viewer.open(report)
    with page.expect_event("requestfailed") as refused:
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.bad=1\">')")
    assert "csp" in str(refused.value.failure).lower()
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'bad = 1'}))")
    assert page.evaluate("fetch('http://127.0.0.1:9/').catch(error => error.message)") == "Failed to fetch"
    assert page.evaluate("window.bad") is None
    said = " ".join(viewer.complaints)
    for directive in ("script-src", "img-src", "connect-src"):
        assert directive in said, said
    viewer.complaints.clear()
    viewer.requests -= {refused.value.url, "http://127.0.0.1:9/"}


def test_two_thousand_rollouts_are_a_few_rows(viewer: Viewer, tmp_path: Path) -> None:
    records = [
        failed(f"task-{number:04d}") if number % 7 == 0 else passed(f"task-{number:04d}")
        for number in range(2000)
    ]
    write_html(write_run(tmp_path / "run", records), tmp_path / "report.html")
    page = viewer.open(tmp_path / "report.html")
    rows = page.locator("table.rollouts tbody tr")
    assert rows.count() < 80
    expect(page.locator("table.rollouts")).to_have_attribute("aria-rowcount", "2001")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="task-1999")).to_be_visible()
    assert rows.count() < 80
    page.keyboard.press("/")
    page.keyboard.type("1234")
    assert tasks_shown(page) == ["task-1234"]
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("task-1234")
    page.keyboard.press("Escape")
