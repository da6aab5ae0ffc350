"""NeMo Gym 0.4.0 itself: its own example rows with the oracle, with nop, and with its recorded rollouts.

One run for each server, in the package's own interpreter. The figures are what the rows and the recordings
are worth: where one is not whole, the line says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.nemo_gym

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / ".matrix" / "nemo-gym-0.4.0"


class Figures(NamedTuple):
    """What is expected of a server's rows: how many of how many.

    Attributes:
        oracle: rows with a reference answer that get the whole reward, and all such rows.
        nop: rows that get the whole reward for "I do not know.", and all that are judged.
        replay: recorded rollouts that get their recorded reward again, and all that can be judged.
    """

    oracle: tuple[int, int]
    nop: tuple[int, int]
    replay: tuple[int, int]


NONE = (0, 0)
ALL = Figures((5, 5), (0, 5), (5, 5))

SERVERS: dict[str, Figures] = {
    "arc_agi": Figures((10, 10), (0, 10), (4, 4)),  # rows of one prompt share its recordings
    "bunsenbench_chemistry_mcq": ALL,
    "calendar": ALL,
    "circle_click": ALL,
    "circle_count": ALL,
    "equivalence_rule": ALL,
    "example_multi_step": Figures(NONE, (0, 5), (5, 5)),
    "example_multi_turn_gymnasium": Figures(NONE, (0, 5), (5, 5)),
    "example_session_state_mgmt": ALL,
    "example_single_tool_call": Figures(NONE, (5, 5), (5, 5)),  # a tutorial: it always gives 1
    "example_tool_call_multireward": Figures(NONE, (0, 5), (5, 5)),
    "format_verification": Figures(NONE, (0, 15), (10, 10)),
    "gpqa_diamond": Figures((5, 5), (0, 5), NONE),  # its recordings are of rows that do not come with it
    "graphwalks": Figures((5, 5), (0, 5), NONE),  # likewise
    "hotpotqa_qa": ALL,
    "imo_gradingbench": ALL,
    "math_proof_judgement": ALL,
    "math_with_code": Figures(NONE, (0, 5), (4, 5)),  # one recording has 0 where the server now gives 1
    "math_with_judge": ALL,  # but see BY_THE_CLOCK
    "mcqa": Figures((10, 10), (0, 10), (10, 10)),
    "nvarc": Figures(NONE, (0, 5), (5, 5)),
    "physics_judge": Figures((5, 5), NONE, (5, 5)),  # what does not match only the judge could settle
    "polymath": ALL,
    "proof_genselect": ALL,
    "reasoning_gym": ALL,
    "single_step_tool_use_with_argument_comparison": Figures((5, 5), (2, 5), (5, 5)),  # any words will do
    "structeval": Figures(NONE, (0, 10), (10, 10)),
    "structured_outputs": Figures((13, 15), (0, 15), NONE),  # no table in CSV fits two of the schemas
    "swe_pivot": ALL,
    "swerl_llm_judge": Figures(NONE, (0, 5), (5, 5)),
    "terminal_multi_harness": Figures((5, 5), (1, 5), (5, 5)),  # any words will do
    "terminus_judge": ALL,
    "ugphysics_judge": Figures((5, 5), NONE, (5, 5)),
    "workplace_assistant": Figures((5, 5), (0, 5), NONE),  # its recordings are of other rows
    "xlam_fc": ALL,
}
BY_THE_CLOCK = "math_with_judge"
"""Its server gives 0 where a time limit of its own runs out: on a busy machine that befalls one answer."""
_TABLE: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print what was found, at the end."""
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{'server':48} {'oracle':>8} {'nop':>8} {'replay':>8}", *_TABLE, sep="\n")


@pytest.fixture(scope="module")
def servers() -> Path:
    folder = next(PACKAGE.glob("lib/python*/site-packages/resources_servers"), None)
    if folder is None:
        pytest.skip("NeMo Gym is not installed: bash scripts/setup_nemo_gym.sh")
    return folder


def run(folder: Path, output: Path, agents: str) -> list[dict[str, Any]]:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={output}"),
        *(f"--rlenv={folder}", f"--agent={agents}", f"--rlenv-output={output / 'run'}"),
        *(f"--rlenv-nemo-python={PACKAGE / 'bin' / 'python'}", "--rlenv-trust-code"),
    ]
    env = {**os.environ, "RLENV_CACHE": str(output / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=output, env=env, capture_output=True, text=True, check=False)
    (output / "pytest.log").write_text(done.stdout + done.stderr)
    results = output / "run" / "results.jsonl"
    assert results.exists(), done.stdout + done.stderr
    return [json.loads(line) for line in results.read_text().splitlines()]


def count(records: list[dict[str, Any]], agent: str) -> tuple[int, int]:
    """Return how many of an agent's rollouts are whole, of those that were to be judged."""
    own = [each for each in records if each["agent"] == agent and each["skip_reason"] is None]
    if agent == "replay":
        return sum(each["verdict"] == "passed" for each in own), len(own)
    return sum(each["reward"] is not None and each["reward"] >= 1.0 for each in own), len(own)


@pytest.mark.parametrize("name", SERVERS)
def test_the_rows_of_a_server_are_judged_as_they_are_known_to_be(
    name: str, servers: Path, tmp_path: Path
) -> None:
    records = run(servers / name, tmp_path, f"oracle,nop,replay:{servers / name / 'data'}")
    found = Figures(*(count(records, agent) for agent in Figures._fields))
    _TABLE.append(f"{name:48} " + " ".join(f"{whole}/{of}".rjust(8) for whole, of in found))
    errors = [f"{r['task']} {r['agent']}: {r['error']['message']}" for r in records if r["error"]]
    if name == BY_THE_CLOCK and found.replay == (4, 5):
        found = found._replace(replay=(5, 5))
    assert found == SERVERS[name], "\n".join(errors)
