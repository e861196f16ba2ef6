"""Memory that ends before keys of CKKS are made, and what is offered instead."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import becalm
from becalm import _native, _values, ckks, desilo

TOY = {"allow_insecure": True, "progress": False}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses as Linux has them")

#: Keys of a large ring while there is less and less room for what tells their size.
REFUSED = """
import resource
import sys

import becalm

NEVER = resource.RLIM_INFINITY
for more in map(int, sys.argv[1:]):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (more << 20), NEVER))
    try:
        becalm.keygen("ckks_n17", threads=2, progress=False)
    except becalm.OutOfMemory as e:
        said = f"{more} {e}"
    resource.setrlimit(resource.RLIMIT_AS, (NEVER, NEVER))
    print(said)
"""

#: An engine and its bootstrap key while there is less and less room for them.
ENGINE = """
import resource
import sys

import becalm
from becalm.desilo import Engine

NEVER = resource.RLIM_INFINITY


def refused(megabytes, make):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (megabytes << 20), NEVER))
    try:
        make()
    except becalm.OutOfMemory as e:
        said = str(e)
    resource.setrlimit(resource.RLIMIT_AS, (NEVER, NEVER))
    print(said)


becalm.ckks.price("ckks_toy_12", bootstrap="small")
refused(50, lambda: Engine(use_bootstrap=True))
engine = Engine(use_bootstrap=True)
secret = engine.create_secret_key()
for megabytes in map(int, sys.argv[1:]):
    refused(megabytes, lambda: engine.create_bootstrap_key(secret))
"""

#: The memory and the processor time that a price takes.
PRICED = """
import sys
import time

import becalm

# The tables that are made once, whatever the set.
becalm.ckks.price("ckks_toy_12", bootstrap="small")


def peak():
    # getrusage would report the parent's peak where that was larger.
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


before, times = peak(), []
for _ in range(5):
    started = time.process_time()
    becalm.ckks.price(sys.argv[1])
    times.append(time.process_time() - started)
print(peak() - before, min(times))
"""


def python(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    few = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=few)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-2000:]}"
    return done.stdout.splitlines()


@LINUX
def test_a_ring_without_room_is_refused_and_no_abort():
    limits = (100, 250, 400, 600, 1000)
    said = python(REFUSED, *limits)
    assert [int(line.split()[0]) for line in said] == list(limits)
    for line in said:
        assert "keygen: wanted" in line and "GB" in line and "free memory" in line, line
        assert "0.00 GB" not in line, line
    assert all("for keys, matrices and the work of a bootstrap" in line for line in said), said


@LINUX
@pytest.mark.parametrize("name", ["ckks", "ckks_n17", "ckks_precise"])
def test_a_price_takes_little_memory_and_time(name):
    taken, seconds = python(PRICED, name)[0].split()
    # Processor time of this process, the least of five: a busy machine makes it little longer.
    assert int(taken) <= 20e6 and float(seconds) <= 0.05, (taken, seconds)


def test_keys_of_many_levels_are_packed_unless_they_are_asked_for_as_they_are():
    for levels, most in ((14, 9e9), (17, 12e9)):
        usual, ready = (ckks.price("ckks", levels=levels, compact=c) for c in (None, False))
        assert usual.compact is True and usual.peak_bytes < most
        assert ready.compact is False and ready.memory_bytes > 1.3 * usual.memory_bytes
    assert ckks.price("ckks").compact is False
    secret, server = becalm.keygen(
        "ckks_toy_14_levels", bootstrap="small", allow_insecure=True, progress=False
    )
    ready = ckks.price("ckks_toy_14_levels", bootstrap="small", compact=False)
    assert server.nbytes < 0.8 * ready.memory_bytes
    y = secret.encrypt([0.5, -0.25], level=0).bootstrap()
    assert y.level == 14 and abs(secret.decrypt(y)[:2] - [0.5, -0.25]).max() < 1e-4
    later = secret.server(bootstrap="small", compact=False, progress=False)
    assert later.nbytes > server.nbytes


@LINUX
def test_an_engine_without_room_is_refused_with_what_an_engine_has():
    limits = (64, 200, 400, 550, 700, 3000)
    ring, *keys = python(ENGINE, *limits)
    assert "engine: wanted 92.5 MB for the tables" in ring and " MB free" in ring
    assert "becalm.keygen, which has sets of smaller rings" in ring
    for line in keys:
        assert "Engine(compact=True)" in line and "; or free memory" in line
        assert not any(word in line for word in ("rotations", "levels", "seeded"))
    # Keys against keys: the offers take less than what was refused. The system may refuse a part
    # of one key, which has no size.
    whole = [line for line in keys if " elements of " not in line]
    for line in whole:
        sizes = re.findall(r"(?:wanted|takes) ([0-9.]+) ([MG])B", line)
        refused, *offered = (float(size) * {"M": 1e6, "G": 1e9}[unit] for size, unit in sizes)
        assert offered and max(offered) < refused, line
    assert any('size="small"' in line for line in whole), keys


def test_keys_of_an_engine_that_do_not_fit_are_refused_with_sizes_that_do(monkeypatch):
    class Full:
        """A secret key whose keys do not fit."""

        def keys(self, *arguments):
            remedy = "make keys for lower levels, or seeded ones"
            raise becalm.OutOfMemory("make keys", "4.50 GB", "3.50 GB free", remedy)

    name = "ckks_toy_slots_first"
    engine, secret = desilo.ToyEngine(use_bootstrap=True), desilo.SecretKey(Full(), name)
    own = engine.create_secret_key()
    base = engine.create_relinearization_key(own)._native

    def made(size, form):
        """Bytes of the keys that are made besides the key of multiplication."""
        needs = engine._plan(["regular"], None, size).needs()
        return own._native.keys(needs, base, None, form).bytes_as(form) - base.bytes_as(form)

    packed, least = made("medium", "packed"), made("small", "packed")
    small = made("small", "ready")

    def remedy(free, make):
        monkeypatch.setattr(becalm._native, "free_memory", lambda: free)
        with pytest.raises(becalm.OutOfMemory) as e:
            make(secret)
        assert "seeded" not in e.value.remedy and "free memory" in e.value.remedy
        return e.value.remedy

    said = remedy(1 << 40, lambda _: engine.create_relinearization_key(secret))
    assert said.startswith("Engine(compact=True) takes ")
    secret._base = base
    said = remedy(1 << 40, engine.create_bootstrap_key)
    assert f"Engine(compact=True) takes {_values.megabytes(packed)}" in said
    said = remedy(small, engine.create_bootstrap_key)
    assert f'size="small" takes {_values.megabytes(small)}' in said
    said = remedy(least, engine.create_bootstrap_key)
    size = _values.megabytes(least)
    assert said.startswith(f'Engine(compact=True) and size="small" takes {size}')
    assert "the least is" in remedy(least - 1, engine.create_bootstrap_key)
    assert "size=" not in remedy(1 << 40, engine.create_rotation_key)


def peak(name, **options):
    return ckks.price(name, **options).peak_bytes


def refusal(monkeypatch, free, name, **options):
    monkeypatch.setattr(becalm._native, "free_memory", lambda: free)
    with pytest.raises(becalm.OutOfMemory) as e:
        becalm.keygen(name, **options, progress=False)
    return e.value.remedy


def test_a_smaller_ring_is_offered_with_what_it_takes(monkeypatch):
    small = {"bootstrap": "small"}
    n15, whole = peak("ckks_n15", **small), peak("ckks_n15")
    assert n15 < peak("ckks_slots_first", **small, compact="seeded")
    assert n15 < whole < peak("ckks_regular", **small, compact="seeded")
    said = refusal(monkeypatch, n15 + 1, "ckks")
    wanted = '"ckks_n15" with bootstrap="small" has 16384 slots and 5 levels and takes '
    assert f"{wanted}{_values.megabytes(n15)}" in said and "free memory" in said
    said = refusal(monkeypatch, whole + 1, "ckks", levels=10)
    assert f'"ckks_n15" has 16384 slots and 5 levels and takes {_values.megabytes(whole)}' in said
    # Keys that are made elsewhere would run here, of which little is in memory at a time.
    assert 'make keys of bootstrap="medium" on a larger machine: ckks.load_server' in said
    # If keys of the set itself fit, no smaller ones are offered.
    packed = peak("ckks_slots_first", compact=True)
    said = refusal(monkeypatch, packed + 1, "ckks")
    assert said == f"compact=True takes {_values.megabytes(packed)}"
    # No smaller ring has the arcsine, and nothing is offered where nothing fits.
    assert "ckks_n15" not in refusal(monkeypatch, whole + 1, "ckks", kinds="precise")
    assert "ckks_n15" not in refusal(monkeypatch, 1 << 20, "ckks")


def test_a_server_of_a_secret_key_is_offered_no_other_ring(monkeypatch):
    secret, _ = becalm.keygen("ckks_n13", bootstrap=None, progress=False)
    rotations = list(range(1, 40))
    free = peak("ckks_n13", bootstrap=None, rotations=rotations) - 1
    fits = peak("ckks_n13", bootstrap=None, rotations=rotations, compact=True)
    monkeypatch.setattr(becalm._native, "free_memory", lambda: free)
    with pytest.raises(becalm.OutOfMemory) as e:
        secret.server(bootstrap=None, rotations=rotations, progress=False)
    assert e.value.op == "server" and e.value.remedy.startswith("compact=True takes ")
    free = peak("ckks_n12", bootstrap=None, rotations=rotations)
    assert free < fits
    with pytest.raises(becalm.OutOfMemory) as e:
        secret.server(bootstrap=None, rotations=rotations, progress=False)
    assert "ckks_n" not in e.value.remedy and "free memory" in e.value.remedy


def test_sets_for_arithmetic_are_offered_for_arithmetic(monkeypatch):
    said = refusal(monkeypatch, peak("ckks_n13", bootstrap=None, compact=True) + 1, "ckks_n14")
    assert '"ckks_n13"' in said and "4096 slots and 4 levels" in said


def test_keys_of_a_file_that_do_not_fit_are_refused_with_the_ways_that_do(monkeypatch, tmp_path):
    options = {"slots": 32, "bootstrap": "small"}
    secret, server = becalm.keygen("ckks_toy_12", **options, **TOY)
    server.save(tmp_path / "keys")
    file = str(tmp_path / "keys")
    plan, context = server._plan, server._machine
    packed, seeded = (ckks.price("ckks_toy_12", **options, compact=c) for c in (True, "seeded"))
    keys = _native.CkksKeys.load(context, file, True)
    assert keys.bytes_as("packed") == packed.memory_bytes

    def remedy(free):
        return plan.reading(keys, free)

    everything = remedy(1 << 40)
    for words in ("compact=True", 'compact="seeded"', 'memory="low" takes '):
        assert words in everything
    # The offered memory holds the keys and their bootstrap, as in a price.
    assert f"compact=True takes {_values.megabytes(packed.peak_bytes)}" in remedy(packed.peak_bytes)
    fits = remedy(seeded.peak_bytes)
    assert fits.startswith('compact="seeded" takes') and "compact=True" not in fits
    assert 'compact="seeded"' not in remedy(seeded.peak_bytes - 1)
    # These keys are the smallest of their set.
    assert remedy(1000) == "free memory, or make keys of a smaller set"

    load = _native.CkksKeys.load

    class Full:
        """Keys for which memory ends while they are read."""

        @staticmethod
        def load(on, path, stored=False, form="ready"):
            if stored:
                return load(on, path, stored)
            raise becalm.OutOfMemory("read keys", "3.00 GB", "1.00 GB free", "use less")

    monkeypatch.setattr(_native, "free_memory", lambda: 1 << 40)
    monkeypatch.setattr(_native, "CkksKeys", Full)
    with pytest.raises(becalm.OutOfMemory, match='memory="low"'):
        ckks.load_server(file, allow_insecure=True)
    monkeypatch.undo()
    again = ckks.load_server(file, allow_insecure=True, memory="low")
    y = again.bootstrap(secret.encrypt(np.full(32, 0.5), level=0))
    assert abs(secret.decrypt(y)[0] - 0.5) < 1e-3
