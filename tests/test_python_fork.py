"""Forked children: every call of both schemes works there, and none waits for threads that only its
parent has.

The list of calls is that of the extension, `becalm._native`. A call that no test here makes is a
failure.
"""

import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fork_kinds import KINDS, TOY, near

import becalm
from becalm import _native, ckks, desilo

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

#: Seconds after which a child counts as hanging.
LIMIT = 240

#: The calls that no test here can make, and why.
NOT_CALLED = {
    "_panic": "panics on purpose; tests/test_python_errors.py calls it",
    "look_for_nvrtc": "changes where this process looks",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = SimpleNamespace(folder=tmp_path_factory.mktemp("fork"), rng=np.random.default_rng(7))
    made.toy = becalm.keygen("toy_2_2", **TOY)
    made.slots = becalm.keygen("toy_cm_1_1_w2", **TOY)
    made.small = becalm.keygen("ckks_toy_12", slots=16, rotations=range(16), bootstrap=None, **TOY)
    made.packed = becalm.keygen("ckks_toy_12", bootstrap=None, rotations=[1], compact=True, **TOY)
    made.large = becalm.keygen("ckks_toy_13", bootstrap="large", **TOY)
    made.tables = becalm.keygen("ckks_toy_table_4", **TOY)
    made.values = made.rng.uniform(-0.5, 0.5, 16)
    made.x = made.small.secret.encrypt(made.values)
    for name in ("small", "packed", "large"):
        getattr(made, name).server.save(made.folder / name)
    # Keys that stay in their file: parent and child share its file position, so none may use it.
    made.stored = ckks.load_server(made.folder / "large", memory="low", allow_insecure=True)
    made.engine = desilo.ToyEngine(use_bootstrap=True)
    made.deep = made.large.secret.encrypt(made.rng.uniform(-0.5, 0.5, 64), level=0)
    for work in KINDS.values():
        work(made)
    return made


def calls():
    """Every function of the extension, and every method and constructor of its classes."""
    found = {}
    for name, what in vars(_native).items():
        if isinstance(what, type):
            for own, member in vars(what).items():
                is_property = type(member).__name__ == "getset_descriptor"
                if own == "__new__" or not (own.startswith("__") or is_property):
                    found[f"{name}.{own}"] = (what, own)
        elif callable(what) and not name.startswith("__"):
            found[name] = (_native, name)
    return found


def noted(where, name, whole, seen):
    """Replaces a call by itself and a note that it was called."""
    if name == "__new__":
        # The constructor stays. The initialiser after it takes the note.
        where.__init__ = lambda *args, **kwargs: seen.add(whole)
        return
    call = getattr(where, name)

    def noting(*args, **kwargs):
        seen.add(whole)
        return call(*args, **kwargs)

    setattr(where, name, staticmethod(noting) if static(where, name) else noting)


def static(where, name):
    return isinstance(vars(where)[name], staticmethod)


def child(work, limit=LIMIT, forked=lambda: None):
    """The JSON that a forked child returns for this work, or `None` if the child hangs."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            said = {"is": work()}
        except BaseException as e:
            said = {"error": type(e).__name__, "text": str(e)}
        with os.fdopen(write, "w") as out:
            json.dump(said, out)
        os._exit(0)
    os.close(write)
    forked()
    try:
        with os.fdopen(read) as said:
            ready, _, _ = select.select([said], [], [], limit)
            text = said.read() if ready else ""
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return json.loads(text) if text else None


@pytest.mark.parametrize("name", KINDS)
def test_a_forked_child_computes(world, name):
    assert child(lambda: KINDS[name](world)) == {"is": None}


def test_no_call_is_forgotten(world):
    def all_of_them():
        seen = set()
        for whole, (where, name) in calls().items():
            noted(where, name, whole, seen)
        for work in KINDS.values():
            work(world)
        return sorted(seen)

    said = child(all_of_them, 3 * LIMIT)
    assert said and "is" in said, said
    missing = set(calls()) - set(said["is"]) - set(NOT_CALLED)
    assert not missing, f"add calls of these to a kind above: {sorted(missing)}"
    assert set(NOT_CALLED) <= set(calls())


def test_children_of_multiprocessing_compute(world):
    global shared
    shared = world
    with multiprocessing.get_context("fork").Pool(2) as pool:
        waiting = [pool.apply_async(named, [name]) for name in ("tfhe", "arithmetic", "bootstraps")]
        assert [w.get(timeout=2 * LIMIT) for w in waiting] == [True] * 3
        pool.close()
        pool.join()


def named(name):
    KINDS[name](shared)
    return True


def test_a_child_of_a_child_computes(world):
    def inner():
        KINDS["arithmetic"](world)
        KINDS["tfhe"](world)
        return child(lambda: (KINDS["arithmetic"](world), KINDS["tfhe"](world))[0], LIMIT / 2)

    assert child(inner) == {"is": {"is": None}}


def test_parent_and_child_compute_at_once_and_draw_apart(world):
    """Both have a file of keys open. No randomness is drawn twice."""
    secret = world.large.secret
    values = np.full(16, 0.25)

    def work():
        for _ in range(3):
            made = world.stored.bootstrap(world.stored.attach(world.deep))
        x, lwe = secret.encrypt(values), world.toy.secret.encrypt(3)
        near(secret.decrypt(made), secret.decrypt(world.deep), 0.05)
        return [x.to_bytes().hex()[-64:], lwe.to_bytes().hex()[-64:]]

    said, begun = [], threading.Event()
    other = threading.Thread(target=lambda: said.append(child(work, forked=begun.set)))
    other.start()
    # A child that is forked in the middle of a call is refused: see below.
    assert begun.wait(LIMIT)
    own = work()
    other.join()
    assert said[0] and "is" in said[0], said
    assert not set(own) & set(said[0]["is"])


def test_a_child_forked_in_the_middle_of_a_call_is_refused():
    """Locks of another thread stay locked there. The child gets a typed error and does not wait."""
    script = """
        import becalm, os, sys, threading, time
        toy = {"allow_insecure": True, "progress": False}
        secret, server = becalm.keygen("ckks_toy_13", bootstrap="large", **toy)
        t, s = becalm.keygen("toy_2_2", **toy)
        x, y = secret.encrypt([0.5], level=0), t.encrypt(3)
        going = True
        def work():
            while going:
                server.bootstrap(x)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        pid = os.fork()
        if pid == 0:
            refused = 0
            calls = [
                lambda: x + x, lambda: x * x, lambda: secret.decrypt(x), lambda: t.decrypt(y),
                lambda: secret.encrypt([1]), lambda: server.bootstrap(x),
                lambda: s.bootstrap(y, lambda m: m),
            ]
            for f in calls:
                try:
                    f()
                except becalm.Unsupported as e:
                    refused += "spawn" in e.remedy
            os._exit(0 if refused == len(calls) else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        going = False
        thread.join()
        secret.decrypt(server.bootstrap(x))
        sys.exit(code)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=2 * LIMIT)
    assert run.returncode == 0
