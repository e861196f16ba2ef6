"""Programs that people write with CKKS: small here, and as long as in earnest under BECALM_FULL=1.

Each is compared with the same computation in numpy, step by step with the same polynomials, so that
an error of the ciphertexts is not taken for one of an approximation.
"""

import numpy as np
import pytest
from conftest import FULL

import becalm
from becalm import ckks

# Claims for every message grow with each iteration, and leave nothing long before the results do.
pytestmark = pytest.mark.filterwarnings("ignore::becalm.PrecisionWarning")

SET = "ckks_toy_12"
TOY = {"allow_insecure": True, "progress": False}


def ran(program, slots, *vectors):
    """The results of a program on encryptions of these, with keys that it needs alone."""
    secret, server = becalm.keygen(SET, slots=slots, needs=program.needs, **TOY)
    levels, _ = program.levels
    inputs = [secret.encrypt(v, level=at) for v, at in zip(vectors, levels, strict=True)]
    made = server.run(program, *inputs)
    return [secret.decrypt(y) for y in (made if isinstance(made, tuple) else (made,))]


def points(rng, samples, features):
    """Two clouds of points around ±a direction, in [−1, 1], with a last column of ones."""
    direction = rng.normal(0, 0.25, features - 1)
    labels = rng.integers(0, 2, samples)
    x = np.outer(2 * labels - 1, direction) + rng.normal(0, 0.3, (samples, features - 1))
    return np.clip(np.column_stack([x, np.ones(samples)]), -1, 1), labels.astype(float)


def test_logistic_regression_has_the_accuracy_of_numpy(rng):
    samples, features, steps = 128, 16, 30 if FULL else 3
    x, labels = points(rng, samples, features)
    rate = 2.0
    sigmoid = ckks.sigmoid(domain=(-8, 8), bits=5)

    p = becalm.Program(SET, auto=True)
    data, scaled, truth, w = (p.input() for _ in range(4))
    for _ in range(steps):
        margins = (data * w).sum(features).replicate(0, features)
        w = w + (scaled * (truth - sigmoid(margins))).sum(samples, stride=features)
    p.output(w)

    flat = [x, x * rate / samples, np.repeat(labels[:, None], features, 1)]
    found = ran(p, 2048, *(v.ravel() for v in flat), np.zeros(2048))[0][:features]
    want = np.zeros(features)
    for _ in range(steps):
        want = want + rate / samples * x.T @ (labels - 1 / (1 + np.exp(-x @ want)))
    accuracy = [((x @ v > 0) == labels).mean() for v in (found, want)]
    assert abs(found - want).max() < 0.1 and want @ want > 0.01
    assert abs(accuracy[0] - accuracy[1]) <= 0.01 and accuracy[0] > 0.8


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
    assert abs(ran(p, 64, values)[0] - 1 / values).max() < 1e-4


@pytest.mark.parametrize("size", [64 if FULL else 4])
def test_the_largest_of_a_list_and_the_sorted_list(rng, size):
    largest = ckks.largest(size, bits=6)
    a = rng.permutation(np.arange(size) + 0.5) / size
    p = becalm.Program(SET, slots=size, auto=True)
    x = p.input()
    p.output(largest(x))
    assert abs(ran(p, size, a)[0][0] - a.max()) < largest.error + 1e-3

    sort = ckks.sort(size, bits=6 if FULL else 4)
    p = becalm.Program(SET, slots=size, auto=True)
    p.output(sort(p.input()))
    assert abs(ran(p, size, a)[0] - np.sort(a)).max() < sort.error + 1e-3


def test_the_first_principal_component_by_power_iteration(rng):
    n, steps = 16, 10 if FULL else 1
    x = rng.normal(0, 0.4, (4 * n, n)) + np.outer(rng.normal(0, 1, 4 * n), rng.normal(0, 0.5, n))
    x = x / np.linalg.norm(x, 2)
    blocks = x.reshape(4, n, n)
    product, times = ckks.matrix_product(n), ckks.matrix_vector(n)
    root = ckks.inverse_sqrt(domain=(0.01, 2), bits=8)

    p = becalm.Program(SET, slots=n * n, auto=True)
    pairs = [(p.input(), p.input()) for _ in blocks]
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
    flat = [m.ravel() for block in blocks for m in (block.T, block)]
    found = ran(p, n * n, *flat, first)[0][:n]
    want = first[:n]
    for _ in range(steps):
        want = x.T @ (x @ want)
        want = want / np.linalg.norm(want)
    assert abs(found - want).max() < 0.01
    if FULL:
        top = np.linalg.svd(x)[2][0]
        assert abs(abs(found @ top) - 1) < 0.01
