"""Names of modules, types of calls and examples of pages, as editors and checkers see them."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from test_pages import ROOT, blocks

import becalm
from becalm import _names

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PUBLIC = sorted(m.name for m in pkgutil.iter_modules(becalm.__path__) if m.name[0] != "_")
FOLDER = Path(becalm.__file__).parent

#: The types that a caller's checker must find, without running anything.
TYPED = """
from typing import Any, assert_type
import numpy as np
import becalm

assert_type(becalm.keygen(), becalm.Keys)
assert_type(becalm.keygen("tfhe_2_2"), becalm.Keys)
assert_type(becalm.keygen("ckks"), becalm.ckks.Keys)
secret_n14, server_n14 = becalm.keygen("ckks_n14", levels=3)
assert_type(secret_n14, becalm.ckks.SecretKey)
assert_type(server_n14, becalm.ckks.Server)
assert_type(becalm.params("tfhe_2_2"), becalm.Params)
assert_type(becalm.params(), list[becalm.Params])
assert_type(becalm.ckks.params("ckks_n14"), becalm.ckks.Params)
assert_type(becalm.ckks.params(), list[becalm.ckks.Params])
assert_type(becalm.ckks.price("ckks_n14"), becalm.ckks.Price)

p = becalm.Program("tfhe_2_2")
assert_type(p, becalm.program.TfheProgram)
def table(m: int) -> int:
    return m
assert_type(p.lookup(p.input(), table), becalm.Register)
assert_type(p.cost, becalm.Cost)
assert_type(p.needs, becalm.program.Needs)
name: str = input()
assert_type(becalm.keygen(name, threads=1), becalm.Keys | becalm.ckks.Keys)
assert_type(becalm.Program(name), becalm.Program)
assert_type(becalm.Program(becalm.params(name)), becalm.program.TfheProgram)
assert_type(becalm.Program(), becalm.program.TfheProgram)
for either in (p, becalm.Program.from_bytes(p.to_bytes())):
    print(either.cost.bootstraps, either.needs.bootstrap, either.params.name)
q = becalm.Program("ckks_n14")
assert_type(q, becalm.ckks.Program)
v = q.input(level=2)
for w in (v * v, 1 - v, v**2, -v, v.conjugate(), v.sum(), v.bootstrap(), v.rotate(1)):
    assert_type(w, becalm.ckks.Register)
assert_type(v.rotate([1, 2]), list[becalm.ckks.Register])
assert_type(q.cost, becalm.ckks.Cost)
assert_type(becalm.cost(q), becalm.ckks.Cost)
assert_type(q.needs, becalm.ckks.Needs)
assert_type(becalm.keygen("ckks_n14", needs=q.needs), becalm.ckks.Keys)
assert_type(becalm.Program(becalm.ckks.params("ckks_n14"), slots=4), becalm.ckks.Program)
M = becalm.ckks.Matrix([[1.0]])
c = secret_n14.encrypt([1.0])
for d in (c * c, 1 - c, M @ c, becalm.ckks.dot([c], [c]), c.rotate(1), c.polynomial([0, 1])):
    assert_type(d, becalm.ckks.Ciphertext)
assert_type(M @ v, becalm.ckks.Register)

secret, server = becalm.keygen(bits=4)
assert_type(secret.encrypt([3, 1, 2]), becalm.Ciphertext)
assert_type(secret.encrypt([3, 1, 2], becalm.uint(8)), becalm.Integers)
assert_type(secret.encrypt([3, 1, 2], np.uint8), becalm.Integers)
assert_type(secret.encrypt(b"bytes"), becalm.EncryptedBytes)
assert_type(secret.decrypt(secret.encrypt(b"bytes")), bytes)
assert_type(becalm.Ciphertext.from_bytes(b""), becalm.Ciphertext)
assert_type(becalm.Server.from_bytes(b""), becalm.Server)
x = becalm.uint(16).encrypt(secret, [500, 3]).on(server)
assert_type(x, becalm.Integers)
for y in (x.sort(), x.argmin(), x.cumsum(), x.sum(axis=(0,), keepdims=True), x.astype(bool), x[0]):
    assert_type(y, becalm.Integers)
for z in (x + 1, 3 * x, x @ [1, 2], -x, x > 1, x == x, x**2, divmod(x, 7)[0], x.abs()):
    assert_type(z, becalm.Integers)
assert_type(x.to_bytes(), bytes)
assert_type(becalm.uint(8).cost("sort", count=5), becalm.Cost)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One run's findings about numpy serve the next."""
    return tmp_path_factory.mktemp("mypy")


def mypy(cache, folder, *targets):
    """mypy's report on files that use the installed package."""
    env = dict(os.environ)
    if FOLDER.parent.name != "site-packages":
        env["MYPYPATH"] = str(FOLDER.parent)
    options = ["--strict", "--ignore-missing-imports", "--python-version", "3.11"]
    command = [sys.executable, "-m", "mypy", *options, "--cache-dir", str(cache)]
    return subprocess.run(
        [*command, *map(str, targets)], cwd=folder, env=env, capture_output=True, text=True
    )


def test_the_examples_of_all_pages_and_calls_of_users_are_typed(cache, tmp_path):
    files = []
    for page in PAGES:
        for language, _, text, line in blocks(page.relative_to(ROOT)):
            if language == "python":
                name = "_".join(page.relative_to(ROOT).with_suffix("").parts)
                files.append(tmp_path / f"{name}_line_{line}.py")
                files[-1].write_text(text, encoding="utf-8")
    assert len(files) > 12
    files.append(tmp_path / "users.py")
    files[-1].write_text(TYPED, encoding="utf-8")
    found = mypy(cache, tmp_path, *files)
    assert found.returncode == 0, found.stdout + found.stderr
    # The check can fail: a wrong type, and keys of another scheme.
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        'import becalm\nsecret, server = becalm.keygen("ckks_n14")\nserver.gate("and", 1, 2)\n'
        "becalm.uint(8).sort()\n"
        'becalm.keygen("tfhe_2_2", rotations=[1])\nbecalm.keygen("ckks_n14", bits=4)\n'
        'becalm.Program("tfhe_2_2", slots=4)\n'
    )
    found = mypy(cache, tmp_path, wrong)
    assert found.stdout.count("attr-defined") == 2, found.stdout
    assert found.stdout.count("[call-overload]") == 3, found.stdout


def test_the_package_itself_is_typed(cache, tmp_path):
    found = mypy(cache, tmp_path, "-p", "becalm")
    assert found.returncode == 0, found.stdout + found.stderr


def test_names_of_sets_as_types_are_those_of_the_sets():
    tfhe, ckks = get_args(_names.TfheName), get_args(_names.CkksName)
    assert list(tfhe) == [p.name for p in becalm.params()]
    assert list(ckks) == ["ckks", *(p.name for p in becalm.ckks.params())]


def test_public_modules_show_their_public_names_alone():
    assert {"ckks", "circuit", "integers", "errors", "desilo"} <= set(PUBLIC)
    for name in PUBLIC:
        module = importlib.import_module(f"becalm.{name}")
        shown = [n for n in dir(module) if not n.startswith("__")]
        assert shown == sorted(module.__all__), name
        for each in shown:
            thing = getattr(module, each)
            assert not inspect.ismodule(thing), f"{name}.{each}"
            # Names from elsewhere must belong to becalm too.
            assert getattr(thing, "__module__", "becalm").startswith("becalm"), f"{name}.{each}"
    assert not {"Any", "np", "os", "annotations"} & set(dir(becalm))
    assert set(dir(becalm)) - {"__doc__", "__file__", "__name__"} == set(becalm.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_known_types_are_not_any(name):
    """Public functions that return `Any` are those of which the arguments decide."""
    undecided = {
        *("load", "from_bytes", "decrypt", "decrypt_bool", "encrypt", "keygen", "apply"),
        *("bootstrap", "run", "lookup", "concatenate", "stack"),
    }
    module = importlib.import_module(f"becalm.{name}")
    for each in module.__all__:
        thing = getattr(module, each)
        members = vars(thing).items() if inspect.isclass(thing) else [(each, thing)]
        for member, f in members:
            if member[0] != "_" and inspect.isfunction(f) and name not in ("circuit", "desilo"):
                anything = f.__annotations__.get("return") == "Any"
                assert not anything or member in undecided, f"becalm.{name}.{each}.{member}"
