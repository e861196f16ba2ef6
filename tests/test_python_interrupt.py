"""Stopping: by Ctrl-C, by a progress callback."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import becalm

#: Seconds until a child counts as hanging, on a machine however busy.
PATIENCE = 600
PRELUDE = """
import becalm, signal, sys, time
# A shell that starts its work in the background hands down a Ctrl-C that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def still_works():
    secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    assert secret.decrypt(server.bootstrap(secret.encrypt(3), lambda m: (m + 1) % 16)) == 4
"""


def files(work):
    """A script that does this with a file of keys, which is whole and alone afterwards."""
    return f"""
        import os, tempfile
        toy = {{"allow_insecure": True, "progress": False}}
        secret, server = becalm.keygen("ckks_toy_13", bootstrap="large", **toy)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            server.save(path)
            try:
                print("ready", flush=True)
                for _ in range(1000):
                    {work}
            except KeyboardInterrupt:
                print("stopped", flush=True)
            assert os.listdir(folder) == ["keys"]
            again = becalm.ckks.load_server(path, "ckks_toy_13", allow_insecure=True)
        assert abs(secret.decrypt(again.bootstrap(secret.encrypt([0.5], level=0)))[0] - 0.5) < 1e-3
        """


def values(work):
    """A script that does this with a file of integers, which is whole and alone afterwards."""
    return f"""
        import os, tempfile
        secret = becalm.SecretKey.generate("toy_2_2", allow_insecure=True)
        x = becalm.uint(8).encrypt(secret, [7] * 4000)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x")
            x.save(path)
            try:
                print("ready", flush=True)
                for _ in range(1000):
                    {work}
            except KeyboardInterrupt:
                print("stopped", flush=True)
            assert os.listdir(folder) == ["x"]
            again = becalm.load(path, allow_insecure=True)
        assert set(secret.decrypt(again).tolist()) == {{7}}
        """


#: Saves while another thread interrupts, as soon as the file is open. Ctrl-C is served within the
#: call: before the file has its name.
WITHIN = """
import os, threading
secret = becalm.SecretKey.generate("toy_2_2", allow_insecure=True)
x = becalm.uint(8).encrypt(secret, [7] * 9000)
folder = sys.argv[1]
path = os.path.join(folder, "x")

def opened():
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(folder):
                return True
        except OSError:
            pass
    return False

def interrupt(over):
    while not over.is_set():
        if opened():
            return os.kill(os.getpid(), signal.SIGINT)

def serve(*_):
    if not os.path.exists(path):
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, serve)
stopped = False
print("ready", flush=True)
# A file that is written before anybody asks is written again.
for _ in range(50):
    over = threading.Event()
    thread = threading.Thread(target=interrupt, args=[over])
    thread.start()
    try:
        x.save(path)
    except KeyboardInterrupt:
        stopped = os.listdir(folder) == []
    over.set()
    thread.join()
    if stopped:
        break
    os.remove(path)
print(stopped)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="open files as Linux lists them")
def test_ctrl_c_is_served_while_ciphertexts_are_written(tmp_path):
    child = start(WITHIN, str(tmp_path))
    out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, out.strip()) == (0, "True"), out + err
    assert list(tmp_path.iterdir()) == []


def start(script, *arguments):
    code = PRELUDE + textwrap.dedent(script)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, *arguments], **pipes)
    assert child.stdout.readline().strip() == "ready"
    return child


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(
    "script",
    [
        """
        try:
            print("ready", flush=True)
            for _ in range(1000):
                becalm.keygen("tfhe_3_3", progress=False)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        still_works()
        """,
        """
        secret, server = becalm.keygen("tfhe_1_1", progress=False)
        x = secret.encrypt([i % 4 for i in range(2000)])
        server.open()
        try:
            print("ready", flush=True)
            for _ in range(1000):
                server.bootstrap(x, lambda m: 3 - m)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        # The arguments are as they were, and the server computes on.
        assert secret.decrypt(server.bootstrap(x[1:3], lambda m: 3 - m)).tolist() == [2, 1]
        """,
        """
        secret, server = becalm.keygen("ckks_toy_13", allow_insecure=True, progress=False)
        x = secret.encrypt([0.5], level=0)
        try:
            print("ready", flush=True)
            for _ in range(1000):
                server.bootstrap(x)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        assert abs(secret.decrypt(x.bootstrap())[0] - 0.5) < 1e-3
        """,
        """
        try:
            print("ready", flush=True)
            for _ in range(1000):
                becalm.keygen("ckks_toy_13", allow_insecure=True, progress=False)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        secret, server = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
        assert abs(secret.decrypt(secret.encrypt([0.5]))[0] - 0.5) < 1e-3
        """,
        values("x.save(path)"),
        values("becalm.load(path, allow_insecure=True)"),
        values("x[::-1]"),
        values("becalm.from_bytes(x.to_bytes(), allow_insecure=True)"),
        files("server.save(path)"),
        files("becalm.ckks.load_server(path, allow_insecure=True)"),
        """
        import numpy as np
        values = np.arange(4096) % 7 / 700
        M = becalm.ckks.Matrix.from_diagonals({k: values for k in range(200)})
        options = {"bootstrap": None, "allow_insecure": True, "progress": False}
        secret, server = becalm.keygen("ckks_toy_13", rotations=M.rotations, **options)
        x = secret.encrypt([0.5], level=1)
        try:
            print("ready", flush=True)
            for _ in range(1000):
                M._maps.clear()
                M @ x
        except KeyboardInterrupt:
            print("stopped", flush=True)
        assert abs(secret.decrypt(M @ x)[4094] - 0.5 * values[4094]) < 1e-3
        """,
        """
        options = {"bootstrap": None, "allow_insecure": True, "progress": False}
        secret, server = becalm.keygen("ckks_toy_13", rotations=[1], **options)
        x = secret.encrypt([0.5])
        try:
            print("ready", flush=True)
            for _ in range(1000):
                becalm.ckks.dot([x] * 400, [x] * 400)
                x.polynomial([0.01] * 500)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        assert abs(secret.decrypt(x.polynomial([0, 0.5]))[0] - 0.25) < 1e-3
        """,
        """
        circuit = becalm.circuit.trace(lambda a, b: a * b, 24, 24)
        try:
            print("ready", flush=True)
            for _ in range(1000):
                circuit.compile(goal="bootstraps")
        except KeyboardInterrupt:
            print("stopped", flush=True)
        assert circuit(3, 5) == 15
        """,
        """
        try:
            print("ready", flush=True)
            for count in range(1024, 2, -1):
                becalm.uint(8).cost("sort", count=count)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        assert becalm.uint(8).cost("add").bootstraps > 1
        """,
    ],
    ids=[
        *("keygen", "bootstrap", "ckks", "ckks_keygen"),
        *("save", "load", "gather", "bytes", "ckks_save", "ckks_load"),
        *("ckks_matrix", "ckks_long", "compile", "record"),
    ],
)
def test_ctrl_c_stops_long_work_and_leaves_nothing_half_done(script):
    child = start(script)
    time.sleep(0.7)
    child.send_signal(signal.SIGINT)
    # Work that does not stop runs to its end and prints nothing.
    out, err = child.communicate(timeout=PATIENCE)
    assert out.strip() == "stopped", out + err
    assert child.returncode == 0, out + err


def test_a_callback_stops_by_returning_false(toy):
    calls = []

    def stop(done, total):
        calls.append((done, total))
        return False

    with pytest.raises(becalm.Interrupted) as e:
        becalm.keygen("tfhe_3_3", progress=stop)
    # A callback that said no is not called again, however long the threads take to notice.
    [(done, total)] = calls
    assert 0 <= done < total
    assert e.value.remedy


def test_a_callback_follows_and_stops_a_compilation():
    circuit = becalm.circuit.trace(lambda a, b: a * b, 8, 8)
    calls = []
    assert circuit.compile(progress=lambda *steps: calls.append(steps)).cost.depth > 1
    assert calls and all(0 <= done <= total for done, total in calls)
    with pytest.raises(becalm.Interrupted):
        becalm.circuit.trace(lambda a, b: a * b, 24, 24).compile(progress=lambda *_: False)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_stops_yosys(tmp_path):
    """The child is stopped too, and its folder goes."""
    slow = tmp_path / "yosys"
    slow.write_text("#!/bin/sh\necho $$ > pid\ncp pid $PIDS\nexec sleep 3000\n")
    slow.chmod(0o755)
    module = tmp_path / "m.v"
    module.write_text("module m(input a, output b); assign b = ~a; endmodule")
    child = start(f"""
        import os, pathlib, tempfile, threading
        pids = pathlib.Path({str(tmp_path)!r}) / "pids"
        os.environ |= {{"BECALM_YOSYS": {str(slow)!r}, "PIDS": str(pids)}}
        tempfile.tempdir = os.environ["TMPDIR"] = {str(tmp_path)!r}
        def ask():
            while not pids.exists() or not pids.read_text().strip():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=ask, daemon=True).start()
        print("ready", flush=True)
        try:
            becalm.circuit.load({str(module)!r})
        except KeyboardInterrupt:
            print("stopped", flush=True)
        try:
            os.kill(int(pids.read_text()), 0)
        except ProcessLookupError:
            print("gone", flush=True)
        """)
    out, err = child.communicate(timeout=PATIENCE)
    assert out.split() == ["stopped", "gone"], out + err
    assert {path.name for path in tmp_path.iterdir()} == {"yosys", "m.v", "pids"}


def test_a_callback_stops_by_raising(toy):
    def fail(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        becalm.keygen("tfhe_3_3", progress=fail)
    x = toy.secret.encrypt([1])
    with pytest.raises(LookupError, match="enough"):
        toy.server.bootstrap(x, lambda m: m, progress=fail)
    assert toy.secret.decrypt(toy.server.bootstrap(x, lambda m: m)).tolist() == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_command_gives_the_signals_back():
    """After it, a pool ends its workers by SIGTERM, and Ctrl-C is Python's. A second command is
    stopped as the first would be."""
    child = start("""
        import os, threading
        from becalm import _native
        signal.signal(signal.SIGHUP, handled := lambda *_: None)
        def dies(number):
            pid = os.fork()
            if pid == 0:
                while True:
                    time.sleep(1)
            os.kill(pid, number)
            for _ in range(600):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == number
                time.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
            return False
        def as_before():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
                return False
            except KeyboardInterrupt:
                pass
            return dies(signal.SIGTERM) and signal.getsignal(signal.SIGHUP) is handled
        print("ready", flush=True)
        for command in (["--version"], ["params"]):
            assert _native.main(["becalm", *command]) == 0
            assert as_before(), command
        for _ in range(2):
            # It searches for seconds at least, and begins to listen at once.
            ask = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
            ask.start()
            sets = ["--scheme", "tfhe", "--params", "tfhe_4_4", "--values", "1"]
            assert _native.main(["becalm", "run", *sets]) == 143
            assert as_before()
        assert _native.main(["becalm", "params"]) == 0
        print("restored", flush=True)
        """)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, out + err
    assert out.endswith("restored\n")
