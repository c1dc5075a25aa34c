"""`make bench`: runs main() of every bench_*.py in this folder."""

import importlib
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("bench_*.py")):
    importlib.import_module(f"tests.benchmarks.{path.stem}").main()
