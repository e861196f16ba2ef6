"""desilofhe's half of `becalm-bench -- ckks`, where the user has installed it; see protocol.py.

    python desilofhe_worker.py regular | 14 | 17 | sparse | lossy | sign | basic | toy

Version 1.17, medium keys, three stages. `basic` has no key of a bootstrap; nor has `toy`: the
library has none in a small ring.
"""

import importlib.metadata
import os
import sys

import desilofhe
import numpy as np
from protocol import message, serve, timed

FLAGS = {
    "14": {"use_bootstrap_to_14_levels": True},
    "17": {"use_bootstrap_to_17_levels": True},
    "sparse": {"use_bootstrap": True, "slot_count": 1024},
    "toy": {},
}
#: log2 of the modulus of key switching, found by looking at keys: the library does not tell.
MODULI = {"14": 1710, "17": 1739, "toy": 400}


class Worker:
    """An engine, its keys, and the commands."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.first = kind in ("lossy", "sign")
        self.flags = flags = FLAGS.get(kind, {"use_bootstrap": True})
        # Keys on all threads; the first command says how many from then on.
        self.set_threads(os.cpu_count() or 1)
        engine = self.engine
        self.secret = engine.create_secret_key()
        self.relinearization = engine.create_relinearization_key(self.secret)
        self.rotation = engine.create_fixed_rotation_key(self.secret, delta=-1)
        self.keys, seconds = timed(self.make_keys)
        bytes_ = sum(key.nbytes for key in self.keys)
        left = {"14": 14, "17": 17, "toy": engine.max_level}
        self.ready = {
            "name": "desilofhe",
            "version": importlib.metadata.version("desilofhe"),
            "params": "Engine(" + ", ".join(f"{k}={v}" for k, v in flags.items()) + ")",
            "log2_degree": 14 if kind == "toy" else 16,
            "slots": engine.slot_count,
            "log2_modulus": MODULI.get(kind, 1704),
            "ephemeral_weight": None if kind == "toy" else 256,
            "levels": left.get(kind, 13 if self.first else 10),
            "top_level": engine.max_level,
            "key_bytes": bytes_,
            "stored_key_bytes": bytes_,
            "keygen_seconds": seconds[0],
        }

    def set_threads(self, count):
        """Another engine: keys belong to the parameters, not to an engine."""
        mode = {"mode": "parallel", "thread_count": count} if count > 1 else {}
        self.engine = desilofhe.Engine(**mode, **self.flags)

    def make_keys(self):
        """The keys of the bootstrap."""
        if self.kind in ("basic", "toy"):
            return []
        make = getattr(self.engine, f"create_{'lossy_' * self.first}bootstrap_key")
        conjugation = self.engine.create_conjugation_key(self.secret)
        return [self.relinearization, conjugation, make(self.secret)]

    def bootstrap(self, kind):
        """One bootstrap from level 0, or 3 where SlotsToCoeffs comes first."""
        if not self.keys:
            raise ValueError(f"{self.kind} has no bootstrap")
        engine = self.engine
        values = message(kind, engine.slot_count)
        run = {"lossy": engine.lossy_bootstrap, "sign": engine.sign_bootstrap}
        x = engine.encrypt(values, self.secret, level=3 if self.first else 0)
        y, seconds = timed(lambda: run.get(self.kind, engine.bootstrap)(x, *self.keys))
        return seconds, engine.decrypt(y, self.secret), values, y.level

    def basic(self, operation, level):
        """An operation at the level of fresh ciphertexts, or at `level`."""
        engine, secret = self.engine, self.secret
        level = engine.max_level if level is None else level
        values = message("ramp", engine.slot_count)
        x, seconds = timed(lambda: engine.encrypt(values, secret, level=level))
        y, wanted = x, values
        if operation == "decrypt":
            got, seconds = timed(lambda: engine.decrypt(x, secret))
            return seconds, got, values, level
        if operation == "multiply":
            wanted = values * values
            y, seconds = timed(lambda: engine.multiply(x, x, self.relinearization))
        elif operation == "rotate":
            wanted = np.roll(values, -1)
            y, seconds = timed(lambda: engine.rotate(x, self.rotation))
        return seconds, engine.decrypt(y, secret), wanted, y.level


if __name__ == "__main__":
    serve(lambda: Worker(sys.argv[1]))
