"""Installs a wheel as a user does, into a bare environment, and uses it.

    python packaging/smoke.py dist [NUMPY]

The folder has one wheel of becalm for this machine. NUMPY is the version to install, by default
the newest. The program prints the result of a bootstrap, and fails if anything does.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

#: Five lines, as the README has them.
PROGRAM = """\
import becalm
secret, server = becalm.keygen(bits=4, progress=False)
x = secret.encrypt([3, 1, 2])
y = server.bootstrap(x, lambda m: (m * m + 1) % 16)
print(secret.decrypt(y))
"""
RESULT = "[10  2  5]"


def output(command: list[str], where: Path) -> str:
    """The output of a command that sees nothing of this process's Python."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=where, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


def smoke(folder: Path, numpy: str | None = None) -> str:
    """Installs the wheel and runs library and command; returns what the program printed."""
    wheels = [str(wheel.resolve()) for wheel in folder.glob("becalm-*.whl")]
    if len(wheels) != 1:
        sys.exit(f"{folder}: wanted one wheel, got {len(wheels)}")
    wanted = [*wheels, f"numpy=={numpy}"] if numpy else wheels
    with tempfile.TemporaryDirectory() as made:
        where = Path(made)
        venv.create(where / "bare", with_pip=True)
        programs = where / "bare" / ("Scripts" if os.name == "nt" else "bin")
        python, becalm = str(programs / "python"), str(programs / "becalm")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Nothing is built: numpy comes as a wheel too.
        output([*pip, "--only-binary", ":all:", *wanted], where)
        said = output([python, "-c", PROGRAM], where)
        doctor = output([becalm, "doctor"], where)
        script = output([becalm, "completions", "bash"], where)
        if "right" not in doctor or "keygen" not in script:
            sys.exit(f"the command does not work:\n{doctor}")
        output([becalm, "man", str(where / "man")], where)
    if said != RESULT:
        sys.exit(f"wanted {RESULT}, got {said}")
    return said


if __name__ == "__main__":
    print(smoke(Path(sys.argv[1]), *sys.argv[2:3]))
