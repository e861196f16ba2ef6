"""The files in deploy/: they parse, and each command of becalm in them is one that becalm knows."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent / "deploy"
#: The status of `becalm` for a folder that is not there. A command that it does not know gives 2.
MISSING = 4


def becalm(arguments):
    line = [sys.executable, "-m", "becalm", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_slurm_script_starts_a_worker(tmp_path):
    path = DEPLOY / "slurm.sh"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n", path], check=True)
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", text, re.M))
    assert {"array", "cpus-per-task", "requeue", "signal", "time"} <= options.keys()
    # The script itself, with a command that tells its arguments.
    fake = tmp_path / "becalm"
    fake.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURMD_NODENAME": "n1", "SLURM_ARRAY_TASK_ID": "7"}
    env["SLURM_CPUS_PER_TASK"] = "16"
    run = ["bash", path]
    missing = subprocess.run(run, env=env, capture_output=True, text=True)
    assert missing.returncode != 0 and "JOB" in missing.stderr
    env["JOB"] = str(tmp_path / "a job")
    told = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    arguments = told.stdout.splitlines()
    assert arguments[:3] == ["job", "work", env["JOB"]] and "n1-7" in arguments
    found = becalm(arguments)
    assert found.returncode == MISSING, found.stderr


def test_the_kubernetes_file_starts_workers():
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    claim, job = yaml.safe_load_all(text)
    assert (claim["kind"], job["kind"], job["apiVersion"]) == (
        "PersistentVolumeClaim",
        "Job",
        "batch/v1",
    )
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    spec = job["spec"]
    assert spec["parallelism"] == spec["completions"] > 1
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "OnFailure" and pod["securityContext"]["runAsNonRoot"] is True
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (worker,) = pod["containers"]
    (mount,) = worker["volumeMounts"]
    assert mount["name"] == volume["name"] and worker["args"][2].startswith(mount["mountPath"])
    assert worker["command"] == ["becalm"] and all(isinstance(a, str) for a in worker["args"])
    named = {e["name"] for e in worker["env"]} | {"JOB_COMPLETION_INDEX"}
    used = set(re.findall(r"\$\((\w+)\)", " ".join(worker["args"])))
    assert used and used <= named
    arguments = [re.sub(r"\$\((\w+)\)", "x", a) for a in worker["args"]]
    found = becalm(arguments)
    assert found.returncode == MISSING, found.stderr


def test_comments_name_commands_that_exist():
    for path in (DEPLOY / "slurm.sh", DEPLOY / "kubernetes.yaml"):
        for line in re.findall(r"`becalm ([^`]*)`", path.read_text(encoding="utf-8")):
            words = shlex.split(line)
            assert becalm([*words[:2], "--help"]).returncode == 0, line


def test_a_command_that_becalm_does_not_know_fails_this_test():
    assert becalm(["job", "work", "/missing", "--threat", "8"]).returncode == 2
