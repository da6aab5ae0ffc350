"""``--rlenv-jobs``: what a rollout waits for, so that it is the one that its test would have run itself."""

from __future__ import annotations

import pytest
from support.meetings import PASSES, counts, lines, meets, peaks
from support.project import Project, outcomes

OVERRIDES = {
    "rlenv_task": "def rlenv_task(rlenv_task): return rlenv_task",
    "rlenv_agent": "def rlenv_agent(rlenv_agent): return rlenv_agent",
    "rlenv_sandbox": "def rlenv_sandbox(rlenv_sandbox): return rlenv_sandbox",
    "rlenv_expectation": "def rlenv_expectation(): return '>= 2'",
    "rollout": "def rollout(rollout): return rollout",
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_overridden_fixture_is_waited_for(project: Project, name: str) -> None:
    project.tasks(a=counts(project), b=counts(project))
    project.pytester.makeconftest(f"import pytest\n\n@pytest.fixture\n{OVERRIDES[name]}")
    result = project.demo("--rlenv-jobs=2")
    assert outcomes(result) == ({"failed": 2} if name == "rlenv_expectation" else {"passed": 2})
    assert len(lines(project, "ran")) == 2
    said = f"rlenv: 2 rollouts waited for their turn: the fixture '{name}' is overridden"
    result.stdout.fnmatch_lines([said])


@pytest.mark.parametrize(
    ("conftest", "reason"),
    [
        (
            "@pytest.fixture(autouse=True)\ndef prepare(): note()",
            "the fixture 'prepare' comes first",
        ),
        (
            "@pytest.fixture(autouse=True, scope='class')\ndef prepare(): note()",
            "the fixture 'prepare' comes first",
        ),
        ("def pytest_runtest_setup(item): note()", "pytest_runtest_setup of conftest.py comes first"),
    ],
)
def test_what_runs_before_each_rollout_is_waited_for(project: Project, conftest: str, reason: str) -> None:
    project.tasks(a=counts(project), b=counts(project))
    head = (
        "import pytest\n\ndef note():\n    with open('ran', 'a') as file:\n        file.write('first\\n')\n\n"
    )
    project.pytester.makeconftest(head + conftest)
    result = project.demo("--rlenv-jobs=2")
    assert outcomes(result) == {"passed": 2}
    assert lines(project, "ran") == ["first", "x", "first", "x"]
    result.stdout.fnmatch_lines([f"rlenv: 2 rollouts waited for their turn: {reason}"])


@pytest.mark.parametrize("scope", ["session", "module"])
def test_what_is_set_up_once_is_waited_for_once(project: Project, scope: str) -> None:
    """The first item sets it up; then all rollouts begin, its own among them."""
    project.tasks(**dict.fromkeys("abc", f"# scripted: count={project.path}/ran\n{meets(project, 3)}"))
    project.pytester.makeconftest(
        f"""
        import pytest

        @pytest.fixture(autouse=True, scope={scope!r})
        def prepare(tmp_path_factory):
            with open("ran", "a") as file:
                file.write("first\\n")
        """
    )
    result = project.demo("--rlenv-jobs=3")
    assert outcomes(result) == {"passed": 3}
    assert lines(project, "ran") == ["first", "x", "x", "x"]
    assert "for their turn" not in result.stdout.str()


def test_fixtures_of_an_own_test(project: Project) -> None:
    """What a test asks for after its rollout does not hold the rollout up; what comes before it does."""
    project.tasks(a=meets(project, 2), b=meets(project, 2))
    project.pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.fixture
        def after(rollout):
            return rollout.reward

        @pytest.fixture
        def before():
            return 1

        class TestWithSetup:
            def setup_method(self): ...

            @pytest.mark.rlenv("envs/demo", task="a")
            def test_setup(self, rollout): ...

        @pytest.mark.rlenv("envs/demo", task="a")
        def test_before(before, rollout): ...

        @pytest.mark.rlenv("envs/demo")
        def test_after(after):
            assert after == 1
        """
    )
    result = project.run("--rlenv-jobs=2", "test_mine.py")
    # the first two come one by one and find nobody, unless the others' meeting place has filled meanwhile
    assert outcomes(result) == {"passed": 4}
    result.stdout.re_match_lines(
        [
            "rlenv: 1 rollout waited for its turn: the fixture '_xunit_setup_method_.* comes first",
            "rlenv: 1 rollout waited for its turn: the fixture 'before' comes first",
        ]
    )


@pytest.mark.parametrize(
    ("mark", "counted"),
    [
        ("skip(reason='x')", {"skipped": 1}),
        ("skipif(True, reason='x')", {"skipped": 1}),
        ("xfail(run=False)", {"xfailed": 1}),
    ],
)
def test_what_may_be_skipped_is_not_begun(project: Project, mark: str, counted: dict[str, int]) -> None:
    project.tasks(a=counts(project), b=PASSES, c=PASSES)
    project.pytester.makeconftest(
        f"""
        import pytest

        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.{mark})
        """
    )
    result = project.demo("--rlenv-jobs=3")
    assert outcomes(result) == {"passed": 2, **counted}
    assert lines(project, "ran") == []
    assert "for their turn" not in result.stdout.str()


@pytest.mark.parametrize(
    ("option", "said"),
    [("--setup-plan", "one rollout at a time"), ("--co", "one rollout at a time")],
)
def test_what_only_lists_begins_nothing(project: Project, option: str, said: str) -> None:
    project.tasks(a=counts(project), b=counts(project))
    result = project.demo("--rlenv-jobs=2", option)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"rlenv: {said}*"])
    assert lines(project, "ran") == []


@pytest.mark.parametrize("option", ["--pdb", "--setup-only"])
def test_who_looks_on_sees_one_after_the_other(project: Project, option: str) -> None:
    project.tasks(**dict.fromkeys("abc", peaks(project)))
    result = project.demo("--rlenv-jobs=3", option)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["rlenv: one rollout at a time*"])
    assert lines(project, "peak") == ["1"] * 3


def test_an_item_that_runs_again_gets_a_new_rollout(project: Project) -> None:
    """As pytest-rerunfailures does it, in the item's own protocol."""
    project.tasks(a=f"# scripted: count={project.path}/ran\n# scripted: reward=0", b=PASSES)
    project.pytester.makepyfile(
        again="""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            if item.name != "a":
                return None
            runtestprotocol(item, nextitem=nextitem, log=False)
            for report in runtestprotocol(item, nextitem=nextitem, log=False):
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    result = project.demo("--rlenv-jobs=2", "-p", "again")
    assert outcomes(result) == {"passed": 1, "failed": 1}
    assert lines(project, "ran") == ["x", "x"]
