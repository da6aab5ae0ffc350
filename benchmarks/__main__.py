"""All benchmarks in one command: ``python -m benchmarks [--quick] [--output FILE] [SECTION...]``.

Every figure is a cost beside that of the bare thing, measured in turn in the same run: figures of different
machines, or of one machine on two days, do not compare.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from benchmarks.tables import Table, machine_facts

SECTIONS = {
    "startup": "what the plugin adds to an unrelated run",
    "collection": "collecting 10, 1,000 and 10,000 tasks",
    "rollouts": "1, 8, 100 and 1,000 oracle rollouts against the bare loops; needs a Docker engine",
    "harbor": "eight oracle rollouts beside Harbor's; needs a Docker engine, Python 3.12 or later and PyPI",
    "hub": "a cold fetch and a warm start against huggingface_hub's snapshot_download",
    "reports": "10,000 results: size of the reports, memory of the run",
    "pages": "HTML reports of 2,000 and 10,000 rollouts, until a browser shows them; needs Chromium",
}


def main() -> None:
    """Run the sections that are asked for, and print each table as soon as it is there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="\n".join(f"{name:11} {what}" for name, what in SECTIONS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", choices=[[], *SECTIONS], default=[])
    parser.add_argument("--quick", action="store_true", help="few rounds of small sizes: does it work?")
    parser.add_argument("--output", type=Path, help="write the tables to this file too")
    arguments = parser.parse_args()
    texts = [f"# Benchmarks\n\n{machine_facts()}\n"]
    print(texts[0], flush=True)
    for name in arguments.sections or SECTIONS:
        with tempfile.TemporaryDirectory(prefix=f"rlenv-benchmark-{name}-") as folder:
            module = importlib.import_module(f"benchmarks.{name}")
            found = module.measure(Path(folder), quick=arguments.quick)
        tables: list[Table] = found if isinstance(found, list) else [found]
        for table in tables:
            texts.append(table.text())
            print(texts[-1], flush=True)
    if arguments.output is not None:
        arguments.output.write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
