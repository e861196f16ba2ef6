"""The timeline of the processor's model for an 8-bit adder, kept in bench/results/timeline.json.

    python3 bench/timeline.py            # writes it anew
    python3 bench/timeline.py --check    # only says whether the model still gives it

It needs the wheel. The model has no chance in it, so the same circuit has the same clocks.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "bench" / "results" / "timeline.json"
CIRCUIT = "crates/becalm/circuits/adder8.txt"
COMMAND = ["circuit", "cost", CIRCUIT, "--device", "processor", "--width", "8"]


def measured():
    """Unit, name, first clock and clocks of every job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        command = [sys.executable, "-m", "becalm", *COMMAND, "--trace", str(path)]
        env = {**os.environ, "BECALM_ABC": ""}  # A machine with ABC may find another cover.
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        events = json.loads(path.read_text(encoding="utf-8"))
    units = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [[units[e["tid"]], e["name"], e["ts"], e["dur"]] for e in events if e["ph"] == "X"]


def written(jobs):
    """The text of the file."""
    lines = ",\n".join(f"  {json.dumps(job)}" for job in jobs)
    command = json.dumps(" ".join(["becalm", *COMMAND, "--trace", "FILE"]))
    return f'{{\n "command": {command},\n "jobs": [\n{lines}\n ]\n}}\n'


def main(check):
    text = written(measured())
    if not check:
        KEPT.write_text(text, encoding="utf-8")
    elif KEPT.read_text(encoding="utf-8") != text:
        return f"{KEPT.name}: run `python bench/timeline.py`"
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
