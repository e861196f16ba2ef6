"""Runs the notebooks in docs/notebooks and stores their outputs: `python packaging/notebooks.py`.

The outputs are stored so that a viewer of the repository shows them. They are text and pictures
that do not change from run to run: tests/test_notebooks.py compares them with those of a new run.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def ran(path):
    """The text of a notebook after a new run, in the only form in which one is stored."""
    notebook = nbformat.read(path, as_version=4)
    # The programs of this Python come first, and a circuit is the same with ABC or without.
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(places), "BECALM_ABC": ""}
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True
    )
    client.execute(cwd=str(path.parent), env=env)
    notebook.metadata = nbformat.from_dict(METADATA)
    for i, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{i}", nbformat.from_dict({})
        if cell.cell_type == "code":
            # A bar of progress is drawn where the work takes long.
            cell.outputs = [o for o in cell.outputs if "text/html" not in o.get("data", {})]
    return nbformat.writes(notebook) + "\n"


def main():
    for path in NOTEBOOKS:
        text = ran(path)
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(FOLDER.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
