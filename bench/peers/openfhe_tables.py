"""OpenFHE's half of `becalm-bench -- tables`, by its wheel: one table of 4 bits on as many integers
as the ring holds, `EvalFBT`. One JSON object goes to standard output.

    python openfhe_tables.py LOG2_DEGREE ROUNDS

Sparse encapsulation, the manual scaling that is its fastest, moduli of 2^40 as its own example has
for digits of 4 bits, three digits of key switching and three levels for each transform, first-order
interpolation. Threads: OMP_NUM_THREADS.
"""

import json
import sys

import numpy as np
import openfhe
from protocol import resident, timed

BITS, MODULUS, DIGITS, STAGES, ORDER = 4, 40, 3, 3, 1
#: log2 of the modulus under which the integers are encrypted, and what coefficients are divided by.
FRESH, SCALE = 60, 8


def table(m: int) -> int:
    """The table of our half."""
    return (m * m + 5 * m + 1) % (1 << BITS)


def context_of(log2_degree: int, coefficients: list[complex]) -> tuple[openfhe.CryptoContext, int]:
    """The context, and its depth."""
    secret, budget = openfhe.SPARSE_ENCAPSULATED, [STAGES, STAGES]
    params = openfhe.CCParamsCKKSRNS()
    params.SetSecretKeyDist(secret)
    params.SetSecurityLevel(openfhe.HEStd_NotSet)
    params.SetRingDim(1 << log2_degree)
    params.SetScalingTechnique(openfhe.FIXEDMANUAL)
    params.SetScalingModSize(MODULUS)
    params.SetFirstModSize(MODULUS)
    params.SetNumLargeDigits(DIGITS)
    params.SetBatchSize(1 << (log2_degree - 1))
    depth = openfhe.CryptoContext.GetFBTDepth(budget, coefficients, 1 << BITS, ORDER, secret)
    params.SetMultiplicativeDepth(depth)
    context = openfhe.GenCryptoContext(params)
    for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE", "ADVANCEDSHE", "FHE"):
        context.Enable(getattr(openfhe, feature))
    return context, depth


def main(log2_degree: int, rounds: int) -> None:
    """Makes keys, looks up, checks every integer."""
    p, q, count, slots = 1 << BITS, 1 << MODULUS, 1 << log2_degree, 1 << (log2_degree - 1)
    coefficients = openfhe.GetHermiteTrigCoefficients(table, p, ORDER, SCALE)
    context, depth = context_of(log2_degree, coefficients)
    keys = context.KeyGen()
    budget = [STAGES, STAGES]
    context.EvalFBTSetup(coefficients, slots, p, p, q, keys.publicKey, [0, 0], budget, 0, 0, ORDER)
    context.EvalBootstrapKeyGen(keys.secretKey, slots)
    context.EvalMultKeyGen(keys.secretKey)
    rlwe = openfhe.SchemeletRLWEMP
    elements = rlwe.GetElementParams(keys.secretKey, depth)
    values = (np.arange(count) * 7 % p).tolist()
    wanted = np.array([table(m) for m in values])
    seconds, wrong = [], 0
    for _ in range(rounds):
        # The look-up changes its argument.
        given = rlwe.EncryptCoeff(values, 1 << FRESH, p, keys.secretKey, elements)
        rlwe.ModSwitch(given, q, 1 << FRESH)
        x = rlwe.ConvertRLWEToCKKS(context, given, keys.publicKey, q, slots, depth)
        made, taken = timed(
            lambda x=x: context.EvalFBT(
                x, coefficients, BITS, elements.GetModulus(), SCALE, 0, ORDER
            )
        )
        seconds.append(taken[1])
        back = rlwe.ConvertCKKSToRLWE(made, q)
        got = rlwe.DecryptCoeff(back, q, p, keys.secretKey, elements, slots, count)
        wrong += int((np.array(got) % p != wanted).sum())
    special = 60 * -(-MODULUS * -(-(depth + 1) // DIGITS) // 60)
    print(
        json.dumps(
            {
                "version": openfhe.__version__,
                "params": f"SPARSE_ENCAPSULATED, FIXEDMANUAL, depth {depth}, 2^{MODULUS}, dnum 3",
                "log2_modulus": MODULUS * (depth + 1) + special,
                "seconds": seconds,
                "wrong": wrong,
                "checked": rounds * count,
                "memory": resident(),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
