"""The notebooks of docs/notebooks show what they showed when they were stored."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import notebooks  # noqa: E402

every = pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)


@every
def test_a_new_run_shows_what_is_stored(path):
    stored, ran = path.read_text(encoding="utf-8"), notebooks.ran(path)
    assert ran == stored, "run `make notebooks`, and store nothing that changes from run to run"


@every
def test_what_is_stored_is_text_and_pictures(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    outputs = [o for cell in cells for o in cell.get("outputs", ())]
    assert len(outputs) >= 3
    for output in outputs:
        assert output.get("name", "stdout") == "stdout", output
        assert set(output.get("data", {})) <= {"text/plain", "image/svg+xml"}, output
