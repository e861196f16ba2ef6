"""Programs that people write with CKKS: short ones in a toy ring, long ones under BECALM_FULL=1.

Each is compared with the same computation in numpy. With `-s` each prints what docs/apps/real.md
says of it.
"""

import time
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL

import becalm
from becalm import ckks

# Claims for every message grow with each iteration, and leave nothing long before the results do.
pytestmark = pytest.mark.filterwarnings("ignore::becalm.PrecisionWarning")

SET = "ckks_slots_first" if FULL else "ckks_toy_slots_first"
KEYS = {"allow_insecure": not FULL, "progress": False}


def ran(program, slots, *vectors):
    """The results of a program on encryptions of these, with keys that it needs alone."""
    secret, server = becalm.keygen(SET, slots=slots, needs=program.needs, **KEYS)
    levels, _ = program.levels
    given = zip(vectors, levels, strict=True)
    inputs = [secret.encrypt(v, level=at, bound=max(1, *map(abs, v))) for v, at in given]
    began = time.perf_counter()
    made = server.run(program, *inputs)
    took = time.perf_counter() - began
    cost = program.cost
    print(
        f"\n{SET}, {slots} slots: {cost.bootstraps} bootstraps, "
        f"{cost.key_switches} key switches, {took:.0f} s"
    )
    return [secret.decrypt(y) for y in (made if isinstance(made, tuple) else (made,))]


def tumours(samples):
    """Samples of tests/data: 30 features from −1 to 1, a 1 and a 0; and labels of 0 and 1."""
    path = Path(__file__).parent / "data" / "breast_cancer.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)[:samples]
    features = (table[:, :-1] - table[:, :-1].mean(0)) / table[:, :-1].std(0)
    x = np.zeros((len(table), 32))
    x[:, :30], x[:, 30] = np.clip(features / 3, -1, 1), 1
    return x, table[:, -1]


def test_logistic_regression_has_the_accuracy_of_numpy():
    rows, steps = (1024, 30) if FULL else (64, 3)
    x, labels = tumours(min(rows, 569))
    samples, features = x.shape
    # Weights and margins are a sixteenth, so that a bootstrap may come anywhere.
    rate, scale = 4.0, 16.0
    sigmoid = ckks.approximate(lambda t: 1 / (1 + np.exp(-scale * t)), domain=(-1, 1), bits=7)

    p = becalm.Program(SET, auto=True)
    data, scaled, truth, w = (p.input() for _ in range(4))
    for _ in range(steps):
        margins = (data * w).sum(features).replicate(0, features)
        w = w + (scaled * (truth - sigmoid(margins))).sum(rows, stride=features)
    p.output(w)

    flat = np.zeros((3, rows, features))
    flat[0, :samples], flat[1, :samples] = x, x * rate / samples / scale
    flat[2, :samples] = labels[:, None]
    size = rows * features
    found = scale * ran(p, size, *flat.reshape(3, size), np.zeros(size))[0][:features]
    want = np.zeros(features)
    for _ in range(steps):
        want = want + rate / samples * x.T @ (labels - 1 / (1 + np.exp(-x @ want)))
    right = [((x @ v > 0) == labels).sum() for v in (found, want)]
    print(
        f"logistic regression: {steps} steps, {samples} samples: "
        f"{right[0]} right, numpy {right[1]}, weights differ by {abs(found - want).max():.1e}"
    )
    assert abs(found - want).max() < 0.02 and want @ want > 0.01
    assert abs(right[0] - right[1]) <= 1 and right[0] > 0.9 * samples


def test_newton_iterations_for_an_inverse():
    steps = 80 if FULL else 12
    p = becalm.Program(SET, slots=64, auto=True)
    a = p.input()
    y = 2 - a
    for _ in range(steps):
        y = y * (2 - a * y)
    p.output(y)
    assert p.cost.bootstraps >= steps // 6
    values = np.linspace(0.8, 1.6, 64)
    error = abs(ran(p, 64, values)[0] - 1 / values).max()
    print(f"Newton: {steps} steps: error {error:.1e}")
    assert error < 1e-5


@pytest.mark.parametrize("size", [64 if FULL else 4])
def test_the_largest_of_a_list_and_the_sorted_list(rng, size):
    largest = ckks.largest(size, bits=6)
    a = rng.permutation(np.arange(size) + 0.5) / size
    p = becalm.Program(SET, slots=size, auto=True)
    x = p.input()
    p.output(largest(x))
    error = abs(ran(p, size, a)[0][0] - a.max())
    print(f"largest of {size}: error {error:.1e}, claimed {largest.error:.1e}")
    assert error < largest.error + 1e-3

    sort = ckks.sort(size, bits=6 if FULL else 4)
    p = becalm.Program(SET, slots=size, auto=True)
    p.output(sort(p.input()))
    error = abs(ran(p, size, a)[0] - np.sort(a)).max()
    print(f"sort of {size}: error {error:.1e}, claimed {sort.error:.1e}")
    assert error < sort.error + 1e-3


def test_the_first_principal_component_by_power_iteration():
    n, blocks, steps = (32, 16, 10) if FULL else (16, 4, 1)
    x = tumours(n * blocks)[0][:, :n]
    x = (x - x.mean(0)) / np.linalg.norm(x - x.mean(0), 2)
    product, times = ckks.matrix_product(n), ckks.matrix_vector(n)
    root = ckks.inverse_sqrt(domain=(0.01, 2), bits=8)

    p = becalm.Program(SET, slots=n * n, auto=True)
    pairs = [(p.input(), p.input()) for _ in range(blocks)]
    covariance = product(*pairs[0])
    for left, right in pairs[1:]:
        covariance = covariance + product(left, right)
    v = p.input()
    for _ in range(steps):
        v = times(covariance, v)
        v = v * root((v * v).sum())
    p.output(v)

    first = np.zeros(n * n)
    first[:n] = np.linalg.norm(x, axis=0)
    first /= np.linalg.norm(first)
    flat = [m.ravel() for block in x.reshape(blocks, n, n) for m in (block.T, block)]
    found = ran(p, n * n, *flat, first)[0][:n]
    want = first[:n]
    for _ in range(steps):
        want = x.T @ (x @ want)
        want = want / np.linalg.norm(want)
    error = abs(found - want).max()
    top = np.linalg.svd(x)[2][0]
    print(f"principal component: {steps} steps, {n * blocks} x {n}: error {error:.1e}")
    assert error < 0.01
    if FULL:
        assert abs(abs(found @ top) - 1) < 0.01
