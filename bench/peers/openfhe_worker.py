"""OpenFHE's half of `becalm-bench -- ckks`, by its wheel; see protocol.py.

Sparse encapsulation, three digits of key switching, scale 2^50, three levels for each transform:
the most levels that 128 bits allow at N = 2^16. Threads: OMP_NUM_THREADS.
"""

import os
import sys

import openfhe
from protocol import message, resident, serve, timed

DEPTH, SCALE, FIRST, DIGITS, STAGES = 23, 50, 51, 3, 3


class Worker:
    """A context, its keys, and the commands."""

    def __init__(self, log2_degree: int) -> None:
        params = openfhe.CCParamsCKKSRNS()
        params.SetSecretKeyDist(openfhe.SPARSE_ENCAPSULATED)
        secure = log2_degree >= 16
        level = openfhe.HEStd_128_classic if secure else openfhe.HEStd_NotSet
        params.SetSecurityLevel(level)
        params.SetRingDim(1 << log2_degree)
        params.SetScalingTechnique(openfhe.FLEXIBLEAUTO)
        params.SetScalingModSize(SCALE)
        params.SetFirstModSize(FIRST)
        params.SetNumLargeDigits(DIGITS)
        params.SetMultiplicativeDepth(DEPTH)
        self.context = context = openfhe.GenCryptoContext(params)
        names = ("PKE", "KEYSWITCH", "LEVELEDSHE", "ADVANCEDSHE", "FHE")
        for feature in names:
            context.Enable(getattr(openfhe, feature))
        self.slots = 1 << (log2_degree - 1)
        context.EvalBootstrapSetup([STAGES, STAGES], [0, 0], self.slots)
        before = resident()
        self.keys, seconds = timed(self.make_keys)
        taken = resident() - before
        context.EvalRotateKeyGen(self.keys.secretKey, [1])
        # A digit is a third of the chain; the special primes have 60 bits and cover one.
        digit = SCALE * -(-(DEPTH + 1) // DIGITS) + FIRST - SCALE
        chain = FIRST + DEPTH * SCALE
        spent = context.GetBootstrapDepth([STAGES, STAGES], openfhe.SPARSE_ENCAPSULATED)
        self.ready = {
            "name": "openfhe",
            "version": openfhe.__version__,
            "params": "SPARSE_ENCAPSULATED, FLEXIBLEAUTO, depth 23, scale 50, dnum 3, budget 3 3",
            "log2_degree": log2_degree,
            "slots": self.slots,
            "log2_modulus": chain + 60 * -(-digit // 60),
            "levels": DEPTH - spent,
            # Measured as memory: the wheel does not tell.
            "key_bytes": taken,
            "stored_key_bytes": taken,
            "keygen_seconds": seconds[0],
        }

    def set_threads(self, count):
        """The library takes what it finds when it is loaded."""
        given = os.environ.get("OMP_NUM_THREADS")
        if given != str(count):
            raise ValueError(f"OMP_NUM_THREADS={count} was wanted at the start, not {given}")

    def make_keys(self):
        """All keys but that of the rotation by one."""
        keys = self.context.KeyGen()
        self.context.EvalMultKeyGen(keys.secretKey)
        self.context.EvalBootstrapKeyGen(keys.secretKey, self.slots)
        return keys

    def encrypt(self, values, used):
        """Encrypts with the secret key, `used` levels below the top."""
        plain = self.context.MakeCKKSPackedPlaintext(list(values), 1, used)
        return self.context.Encrypt(self.keys.secretKey, plain)

    def decrypt(self, x):
        """The values in the slots."""
        plain = self.context.Decrypt(x, self.keys.secretKey)
        plain.SetLength(self.slots)
        return plain.GetCKKSPackedValue()

    def level(self, x):
        """Levels that are left: a scale that is still to be rescaled counts as one."""
        return DEPTH - x.GetLevel() - (x.GetNoiseScaleDeg() - 1)

    def bootstrap(self, kind):
        """One bootstrap of a ciphertext with one level left, the least it takes."""
        values = message(kind, self.slots)
        x = self.encrypt(values, DEPTH - 1)
        y, seconds = timed(lambda: self.context.EvalBootstrap(x))
        return seconds, self.decrypt(y), values, self.level(y)

    def basic(self, operation, level):
        """An operation at the highest level that a bootstrap leaves, or at `level`."""
        level = self.ready["levels"] if level is None else level
        values = message("ramp", self.slots)
        x, seconds = timed(lambda: self.encrypt(values, DEPTH - level))
        y, wanted = x, values
        if operation == "decrypt":
            got, seconds = timed(lambda: self.decrypt(x))
            return seconds, got, values, level
        if operation == "multiply":
            wanted = values * values
            y, seconds = timed(lambda: self.context.Rescale(self.context.EvalMult(x, x)))
        elif operation == "rotate":
            wanted = [*values[1:], values[0]]
            y, seconds = timed(lambda: self.context.EvalRotate(x, 1))
        return seconds, self.decrypt(y), wanted, self.level(y)


if __name__ == "__main__":
    serve(lambda: Worker(int(sys.argv[1])))
