"""A small laboratory in a temporary folder: experiments, a list of artefacts, and children for both."""

import signal
import sys
import textwrap
from types import SimpleNamespace

import pytest

from causalnb.lab import codebase, probes, registry, runner

MODULE = '''
    """A toy whose number depends on its settings and seed; it keeps a checkpoint per step."""
    import os
    import time
    from causalnb.lab.registry import Experiment, register

    def go(run):
        """Adds 1/3 per step."""
        mark = run.folder / "step"
        (run.folder / "pid").write_text(str(os.getpid()))
        done, total = (map(float, mark.read_text().split()) if mark.exists() else (0, run.config["start"]))
        for step in range(int(done), run.config["steps"]):
            time.sleep(run.config["nap"] if step else 0)
            total += (run.seed + 1) / 3
            mark.write_text(f"{step + 1} {total!r}")
            run.progress(step + 1, run.config["steps"], "on its way")
            if run.config["fault"] and step == 1:
                print("a library prints this")
                exec(run.config["fault"])
        return {"metrics": {"": {"total": total, "resumed": float(done > 0)}},
                "history": [{"step": step, "loss": 1 / (step + 1)} for step in range(3)]}

    BASE = {"steps": 4, "start": 0.0, "nap": 0.0, "fault": ""}
    FAULTS = {"bad": "raise ValueError('this arm is bad:\\\\n use another')", "worse": "{}['key']",
              "gone": "os._exit(9)", "full": "raise OSError(28, 'No space left on device')"}
    register(Experiment("toy.sum", "a sum", {"one": {}, "two": {"start": 10.0}},
                        {"laptop": BASE, "quick": {"steps": 2}},
                        {"laptop": 2, "quick": 1}, go, {"laptop": 7, "quick": 1}))
    for name, fault in FAULTS.items():
        register(Experiment(f"toy.{name}", "a fault", {"it": {"fault": fault}}, {"laptop": BASE},
                            {"laptop": 1}, go, {"laptop": 1}))
    for name, nap in {"slow": 0.02, "endless": 60.0}.items():
        register(Experiment(f"toy.{name}", "a long one", {"it": {"steps": 40, "nap": nap}}, {"laptop": BASE},
                            {"laptop": 1}, go, {"laptop": 1000}))
'''
ARTEFACTS = """id,source,printed as,what it shows,kind,notebook
toy.table1,toy,Table 1,the sums,measured,20_toy
toy.fig1,toy,Figure 1,the sums as a curve,measured,20_toy
other.fig1,other,Figure 1,nothing yet,computed,
"""


def forget_code():
    """Read the code again, as the next process would."""
    codebase.current.cache_clear()
    codebase.index.cache_clear()


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The toy experiments, registered here and in children; every folder below tmp_path; profile laptop."""
    for name in ("results", "figures", "cache", "probes"):
        monkeypatch.setenv(f"CAUSALNB_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("CAUSALNB_HOME", str(tmp_path))
    monkeypatch.setenv("CAUSALNB_PROFILE", "laptop")
    monkeypatch.delenv("FRESH", raising=False)
    (tmp_path / "data" / "paper").mkdir(parents=True)
    (tmp_path / "data" / "paper" / "artefacts.csv").write_text(ARTEFACTS, encoding="utf-8")
    module = tmp_path / "toylab.py"
    module.write_text(textwrap.dedent(MODULE), encoding="utf-8")
    child = tmp_path / "child.py"
    child.write_text(
        f"import sys, pathlib\nsys.path.insert(0, folder := {str(tmp_path)!r})\nimport toylab\n"
        "from causalnb.lab import codebase, probes, runner\n"
        "codebase.roots = lambda: {'toylab': pathlib.Path(folder)}\n"
        "probes.ensure = lambda *_: None\nsys.exit(runner.main(sys.argv[1:]))\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_experiments", {})
    monkeypatch.setattr(registry, "_artefacts", {})
    monkeypatch.setattr(registry, "load_all", lambda: None)
    monkeypatch.setattr(runner, "COMMAND", [sys.executable, str(child)])
    monkeypatch.delitem(sys.modules, "toylab", raising=False)
    monkeypatch.setattr(codebase, "roots", lambda: {"toylab": tmp_path})
    monkeypatch.setattr(probes, "state", lambda experiment, arm: (True, "verified"))
    forget_code()
    import toylab

    yield SimpleNamespace(folder=tmp_path, module=module, toy=toylab, child=child)
    forget_code()
    sys.modules.pop("toylab", None)


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, even where the tests were started in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
