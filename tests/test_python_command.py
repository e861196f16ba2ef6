"""The command of the wheel, which runs in the process of the interpreter."""

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_the_command_takes_names_that_are_no_text(tmp_path):
    name = bytes(tmp_path) + b"/n\xff"
    line = [sys.executable, "-m", "becalm", "inspect", name]
    missing = subprocess.run(line, capture_output=True)
    assert missing.returncode == 4 and b"Traceback" not in missing.stderr, missing.stderr
    with open(name, "wb") as file:
        file.write(b"no file of becalm")
    other = subprocess.run(line, capture_output=True)
    assert other.returncode == 4 and b"becalm" in other.stderr, other.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="closes standard streams")
def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    code = """
import os, sys
for stream in range(3):
    os.close(stream)
from becalm.__main__ import main
main(["params"])
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(opened, str(opened).encode())
"""
    file = tmp_path / "opened"
    subprocess.run([sys.executable, "-c", code, file], check=True)
    assert int(file.read_text()) > 2
