"""Our configurations under transformers' Auto classes, whatever is asked or loaded before."""

import subprocess
import sys

ASKED = 'import importlib.util; importlib.util.find_spec("transformers.models.auto.configuration_auto")'
LOADED = """
import sys
from transformers import AutoConfig
assert type(AutoConfig.for_model("sci")).__module__ == "causalnb.sci.configuration"
assert not [finder for finder in sys.meta_path if type(finder).__module__ == "causalnb.registration"]
"""


def test_the_table_is_found_after_it_was_asked_for():
    code = f"import causalnb\n{ASKED}\n{ASKED}\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
