"""Docstrings: every example runs, and every public callable has the sections that it needs."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import textwrap

import numpy as np
import pytest

import becalm
from becalm import ckks, desilo, errors

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
#: Modules of which users call the exported names.
PUBLIC = (
    *("becalm", "becalm.ckks", "becalm.integers", "becalm.aes", "becalm.circuit", "becalm.keys"),
    *("becalm.ciphertext", "becalm.program", "becalm.server", "becalm.doctor", "becalm.errors"),
    "becalm.desilo",
)
CKKS = (
    *("ckks", "_ckks_program", "_ckks_secret_key", "_ckks_server", "_ckks_vector"),
    *("_ckks_computes", "_ckks_cost", "_ckks_ciphertext", "_ckks_function", "_ckks_catalogue"),
    *("_ckks_threshold", "_ckks_collective", "_ckks_arithmetic", "_ckks_sets", "_ckks_files"),
)
#: Modules whose docstrings have all their sections.
DONE = (
    *(
        "becalm",
        "becalm.keys",
        "becalm._pair",
        "becalm._tfhe_secret_key",
        "becalm.server",
        "becalm._tfhe_gates",
    ),
    *(
        "becalm._tfhe_slot_key",
        "becalm._tfhe_encrypted_table",
        "becalm._integer_words",
        "becalm._programs",
    ),
    *("becalm.ciphertext", "becalm._tfhe_registers", "becalm.program"),
    *(
        "becalm.integers",
        "becalm._integer_types",
        "becalm._integer_lists",
        "becalm._integer_arrays",
        "becalm._integer_operators",
    ),
    *("becalm._bits", "becalm.circuit", "becalm.aes", "becalm.doctor", "becalm.errors"),
    *(f"becalm.{module}" for module in CKKS),
    *("becalm._ckks_pack", "becalm._ckks_packed", "becalm._bridge"),
    *("becalm._cluster", "becalm._cluster_job", "becalm._cluster_stream"),
    *("becalm._desilo", "becalm._desilo_arithmetic", "becalm._desilo_matrices"),
    *("becalm._desilo_files", "becalm._desilo_key_files"),
)
#: Callables without an example, and the reason.
WITHOUT_EXAMPLE = {
    "becalm.Params": "the compiled module has its text",
    "becalm._ckks_computes.Computes.evaluate": "calling a `Function` passes it on",
    "becalm._ckks_program.Program.evaluate": "calling a `Function` passes it on",
    "becalm._ckks_server.Server.evaluate": "calling a `Function` passes it on",
}
#: Classes that users make by calling them. All others are results.
MADE_BY_USERS = {"Matrix", "Party", "Program", "Table", "Engine", "ToyEngine"}


def of_tfhe():
    """The names that the examples of TFHE use."""
    secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    x = becalm.uint(8).encrypt(secret, [[200, 3], [77, 0]]).on(server)
    key = becalm.aes128(secret, b"becalm, 16 bytes").on(server)
    return {"becalm": becalm, "np": np, "secret": secret, "server": server, "x": x, "key": key}


def of_ckks():
    """The names that the examples of CKKS use: keys for vectors of 4 values."""
    options = {"slots": 4, "allow_insecure": True, "progress": False}
    secret, server = becalm.keygen("ckks_toy_12", rotations=[1, 2, 3], **options)
    return {"becalm": becalm, "ckks": ckks, "np": np, "secret": secret, "server": server}


def of_packed():
    """The names that the examples of packed integers use."""
    secret, server = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    packed = secret.encrypt_packed([1, 2, 3, 15], bits=4)
    return {"becalm": becalm, "secret": secret, "server": server, "packed": packed}


def of_parties():
    """The names that the examples of collective keys use: two parties."""
    facts = {"parties": 2, "seed": bytes(32), "allow_insecure": True}
    party, other = (ckks.Party("ckks_toy_12", index=i, **facts) for i in (1, 2))
    return {"becalm": becalm, "ckks": ckks, "party": party, "other": other}


def of_desilo(bootstraps):
    """The names that the examples of an engine use."""
    engine = desilo.ToyEngine(**({"use_bootstrap": True} if bootstraps else {"slot_count": 4}))
    secret_key = engine.create_secret_key()
    known = {"np": np, "engine": engine, "secret_key": secret_key, "desilo": desilo}
    for name in ("relinearization", "conjugation", "rotation"):
        known[f"{name}_key"] = getattr(engine, f"create_{name}_key")(secret_key)
    return known


def known_names(module):
    """The names that the examples of a module use."""
    name = module.rpartition(".")[2]
    if "desilo" in name:
        return of_desilo(name in ("desilo", "_desilo_bootstraps"))
    if name in ("_ckks_pack", "_ckks_packed"):
        return of_packed()
    if name == "_ckks_collective":
        return of_parties()
    return of_ckks() if name in CKKS else of_tfhe()


def modules():
    found = [f"becalm.{m.name}" for m in pkgutil.iter_modules(becalm.__path__)]
    return ["becalm", *(m for m in found if m not in ("becalm.__main__", "becalm._native"))]


def source(module):
    """Which of the sets of keys the examples of a module take."""
    name = module.rpartition(".")[2]
    if "desilo" in name:
        return f"desilo {name in ('desilo', '_desilo_bootstraps')}"
    if name in ("_ckks_pack", "_ckks_packed"):
        return "packed"
    if name == "_ckks_collective":
        return "parties"
    return "ckks" if name in CKKS else "tfhe"


def test_every_example_of_a_docstring_runs(tmp_path, monkeypatch):
    made, attempted = {}, 0
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adder.txt").write_text(ADDER)
    for name in modules():
        module = importlib.import_module(name)
        for test in doctest.DocTestFinder().find(module, name):
            # The example of the package has keys of full size: test_python_interface.py.
            if test.examples and test.name != "becalm":
                kind = source(name)
                if kind not in made:
                    made[kind] = known_names(name)
                test.globs = {**vars(module), **made[kind]}
                runner.run(test)
                attempted += 1
    assert not runner.failures
    assert attempted > 60, attempted


def public():
    """Full name and object of every class, function and method that users call."""
    found = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        for each in module.__all__:
            thing = getattr(module, each)
            if inspect.isclass(thing):
                for base in thing.__mro__:
                    if base.__module__.startswith("becalm."):
                        for member, value in vars(base).items():
                            if member[0] != "_":
                                f = getattr(value, "__func__", value)
                                found[f"{base.__module__}.{base.__qualname__}.{member}"] = f
            if getattr(thing, "__module__", "").startswith("becalm"):
                found[f"{thing.__module__}.{each}"] = thing
    return found


def raises_itself(function):
    """Whether the code of a function has a `raise` of an error of becalm."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(
        isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and getattr(node.exc.func, "id", "") in errors.__all__
        for node in ast.walk(tree)
    )


def missing(name, thing):
    """The sections that a docstring lacks."""
    text = inspect.getdoc(thing) or ""
    if isinstance(thing, property):
        return [] if thing.__doc__ else ["a line"]
    if inspect.isclass(thing):
        if issubclass(thing, BaseException):
            return [] if text else ["a line"]
        wanted = ["Examples", "Parameters"] if thing.__name__ in MADE_BY_USERS else ["Examples"]
    elif inspect.isfunction(thing):
        arguments = [p for p in inspect.signature(thing).parameters if p not in ("self", "cls")]
        wanted = ["Examples"]
        wanted += ["Parameters"] * (len(arguments) > 1)
        wanted += ["Returns"] * (thing.__annotations__.get("return") not in ("None", "NoReturn"))
        wanted += ["Raises"] * raises_itself(thing)
    else:
        return []
    if name in WITHOUT_EXAMPLE:
        wanted.remove("Examples")
    lacking = [w for w in wanted if f"{w}\n{'-' * len(w)}\n" not in text]
    if "Examples" in wanted and not any(
        step.want or step.exc_msg for step in doctest.DocTestParser().get_examples(text)
    ):
        lacking.append("an example with a result")
    return lacking


@pytest.mark.parametrize("module", DONE)
def test_public_docstrings_have_their_sections(module):
    everything = {n: t for n, t in public().items() if getattr(t, "__module__", module) == module}
    lacking = {
        name: sections
        for name, thing in everything.items()
        if name.startswith(f"{module}.") and (sections := missing(name, thing))
    }
    assert not lacking, "\n".join(f"{n}: {', '.join(s)}" for n, s in lacking.items())


def test_exceptions_to_the_rule_exist():
    everything = public()
    assert set(WITHOUT_EXAMPLE) <= set(everything)
    # A new module is checked too.
    homes = {getattr(t, "__module__", None) for t in everything.values() if callable(t)}
    assert homes - {*DONE, "becalm.__main__"} <= {"becalm.desilo", "builtins"}, homes - {*DONE}


def test_a_docstring_without_sections_is_found():
    def f(a, b) -> int:
        """A sum."""
        raise becalm.errors.BadInput("f", "", "", "")

    assert missing("f", f) == ["Examples", "Parameters", "Returns", "an example with a result"]

    def g(a) -> int:
        """Does it.

        Examples
        --------
        >>> secret.encrypt(3).save("x")
        """

    assert missing("g", g) == ["Returns", "an example with a result"]


#: A circuit that an example reads: two numbers of one bit, added.
ADDER = "2 4\n2 1 1\n1 2\n\n2 1 0 1 2 XOR\n2 1 0 1 3 AND\n"
