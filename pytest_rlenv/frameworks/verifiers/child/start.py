"""Where the program begins: a file, so that this package's parents need not be importable there."""

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "rlenv_verifiers_child"


def main() -> None:
    """Import what lies beside this file as a package of its own, and serve."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if path != str(folder)]
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{NAME}.serving").main()


if __name__ == "__main__":
    main()
