"""The face itself: documented, typed, readable, and the same as what is compiled."""

import ast
import contextlib
import doctest
import inspect
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import becalm

NATIVE = becalm._native
FOLDER = Path(becalm.__file__).parent
STUB = ast.parse((FOLDER / "_native.pyi").read_text(encoding="utf-8"))


def public(scope):
    return {n: v for n, v in vars(scope).items() if not n.startswith("_")}


def test_everything_public_is_documented():
    undocumented = [n for n in becalm.__all__ if not inspect.getdoc(getattr(becalm, n))]
    for name in becalm.__all__:
        thing = getattr(becalm, name)
        if isinstance(thing, type):
            for member, value in public(thing).items():
                documentable = callable(value) or inspect.isdatadescriptor(value)
                slot = type(value).__name__ in ("member_descriptor", "_tuplegetter")
                if documentable and not slot and not inspect.getdoc(value):
                    undocumented.append(f"{name}.{member}")
    assert undocumented == []


def test_everything_public_is_annotated():
    bare = []
    for name in becalm.__all__:
        thing = getattr(becalm, name)
        module = getattr(thing, "__module__", "")
        if (module == "becalm" and isinstance(thing, type)) or not callable(thing):
            continue  # compiled: the stub speaks for it
        functions = [(name, thing)] if inspect.isfunction(thing) else []
        functions += [(f"{name}.{n}", f) for n, f in public(thing).items() if inspect.isfunction(f)]
        for where, f in functions:
            wanted = {p for p in inspect.signature(f).parameters if p != "self"} | {"return"}
            bare += [f"{where}: {w}" for w in wanted - set(f.__annotations__)]
    assert bare == []
    assert (FOLDER / "py.typed").exists()


def stub_members(node):
    """Names of a stub's class or module, with the parameters of what is callable."""
    found = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            is_property = any(
                isinstance(d, ast.Name) and d.id == "property" for d in item.decorator_list
            )
            names = [
                a.arg
                for a in (*item.args.posonlyargs, *item.args.args)
                if a.arg not in ("self", "cls")
            ]
            found[item.name] = None if is_property else (names, len(item.args.defaults))
        elif isinstance(item, ast.AnnAssign) and ast.unparse(item.annotation) != "TypeAlias":
            found[item.target.id] = None
    return found


def parameters(f):
    known = inspect.signature(f).parameters.values()
    known = [p for p in known if p.name not in ("self", "cls")]
    return [p.name for p in known], sum(p.default is not p.empty for p in known)


def test_the_stub_is_what_was_compiled():
    functions = stub_members(STUB)
    compiled = {n for n in vars(NATIVE) if n in ("__version__", "_panic") or not n.startswith("_")}
    classes = {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}
    assert compiled == functions.keys() | classes.keys()
    for name, known in functions.items():
        if known:
            assert parameters(getattr(NATIVE, name)) == known, name
    for name, node in classes.items():
        cls, members = getattr(NATIVE, name), stub_members(node)
        assert public(cls).keys() == {m for m in members if not m.startswith("_")}, name
        assert not [m for m in members if not hasattr(cls, m)]
        for member, known in members.items():
            if known and not member.startswith("__"):
                assert parameters(getattr(cls, member)) == known, f"{name}.{member}"
        if "__new__" in members:
            assert parameters(cls) == members["__new__"], name


def test_reprs_say_what_a_thing_is_and_keep_secrets(toy):
    secret, server = toy
    x = secret.encrypt([[1, 2]], below=4)
    p = becalm.Program("toy_2_2")
    r = p.input(below=4)
    t = p.input_table()
    p.output(p.lookup(r, t))
    for thing, *words in (
        (secret, "SecretKey", "toy_2_2", secret.key_id),
        (server, "Server", "toy_2_2", secret.key_id),
        (x, "Ciphertext", "(1, 2)", "0 to 3 modulo 16", secret.key_id, "noise 2^-"),
        (x[0, 0] + x, "Ciphertext"),
        (p, "Program", "2 inputs, 1 output, 1 bootstrap,"),
        (r, "Register", "0 to 3 modulo 16"),
        (t, "Register", "encrypted table"),
        (secret.encrypt_table(lambda m: m), "EncryptedTable", "modulo 16"),
        (becalm.Table("toy_2_2", [[0], [1]]), "Table", "2 tables"),
        (secret.params, "Params", "toy_2_2", "16 values"),
    ):
        text = repr(thing)
        assert text.startswith("<becalm.") and text.endswith(">") and len(text) < 200
        assert all(w in text for w in words), text
    # All that the compiled key offers. Only its file gives a bit of the secret away.
    assert public(type(secret._native)).keys() == {
        *("generate", "params", "key_id", "encrypt", "decrypt", "phases"),
        *(
            "encrypt_slot",
            "encrypt_table",
            "pack_key",
            "slot_map_key",
            "evaluation_key",
            "save",
            "save_with",
            "load",
            "to_bytes",
            "from_bytes",
        ),
    }


def test_parameter_sets_are_found_by_name_and_by_need():
    every = becalm.params()
    assert every[0].name == "tfhe_2_2" and len({p.name for p in every}) == len(every) > 20
    assert {p.kind for p in every} == {"standard", "comparison", "toy"}
    one = becalm.params("tfhe_2_2")
    assert one == every[0] and hash(one) == hash(every[0]) and one != every[1]
    assert one.security_bits >= 128 and one.log2_pfail <= -128 and one.values == 16
    assert becalm.params(bits=4) == one
    small = becalm.params(bits=1, log2_pfail=-40, modulus="p")
    assert small.modulus == "p" and small.log2_pfail <= -40
    noise = one.noise()
    assert noise["log2_pfail"] == pytest.approx(one.log2_pfail, abs=0.01)
    parts = noise["fft"] + noise["external_product"] + noise["decomposition"]
    assert noise["blind_rotation"] == pytest.approx(parts)
    assert "failure probability" in one.noise_report()
    for p in every:
        for name, value in inspect.getmembers(p, lambda v: not callable(v)):
            assert name.startswith("__") or isinstance(value, (str, int, float, tuple)), name


def test_keygen_says_first_what_it_will_make(capsys):
    heard = []

    def progress(done, total):
        heard.append((capsys.readouterr().err, done, total))

    secret, server = becalm.keygen("toy_3_3", allow_insecure=True, progress=progress)
    said, done, total = heard[0]
    p = secret.params
    for words in ("toy_3_3", "security", f"2^{p.log2_pfail:.1f}", "64 values", "evaluation key of"):
        assert words in said
    assert heard[-1][1:] == (total, total) and 0 <= done <= total
    assert server.nbytes == pytest.approx(p.stored_key_bytes, rel=0.02)
    assert capsys.readouterr() == ("", "")
    becalm.keygen("toy_3_3", allow_insecure=True, progress=False)
    assert capsys.readouterr() == ("", "")


def test_the_bar_is_plain_text_and_leaves_no_trace(capsys, monkeypatch):
    bar = becalm._progress.Bar("keys", 0.0)
    for done in range(1, 5):
        bar.next = 0
        bar.began -= 1
        bar(done, 4)
    bar.end(True)
    out, err = capsys.readouterr()
    assert out == "" and "keys [" in err and "] 100%" in err and "s left" in err
    assert err.endswith("\r") and err.isascii() and "\n" not in err
    with becalm._progress.shown(None, "x", 0.0) as callback:
        assert callback is None  # a pipe shows no bar
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with becalm._progress.shown(None, "x", 0.0) as callback:
        assert isinstance(callback, becalm._progress.Bar)


def test_doctor(capsys):
    report = becalm.doctor()
    assert report.ok and isinstance(report, dict)
    said = capsys.readouterr().out
    assert report["instructions"][0] in said and "all checks passed" in said
    assert becalm.doctor(quiet=True)["becalm"] == becalm.__version__
    assert capsys.readouterr().out == ""
    report["checks"][0]["ok"] = False
    assert not report.ok and "not to be trusted" in str(report)


def test_doctor_reports_a_refusal_and_no_wrong_result(monkeypatch):
    def refused(*arguments, **options):
        raise becalm.OutOfMemory("keygen", "1.0 GB", "1.0 MB free", "free memory")

    monkeypatch.setattr(becalm.SecretKey, "generate", refused)
    report = becalm.doctor(quiet=True)
    assert not report.ok and all(check["refused"] for check in report["checks"])
    said = str(report)
    assert "WRONG" not in said and "trusted" not in said
    assert "keygen: wanted 1.0 GB" in said and "say nothing of this machine" in said


def test_doctor_shows_how_far_its_checks_are(monkeypatch):
    seen = []

    @contextlib.contextmanager
    def shown(progress, label, delay):
        assert (progress, label) == (None, "doctor")
        yield lambda done, total: seen.append((done, total))

    monkeypatch.setattr(sys.modules["becalm.doctor"], "shown", shown)
    becalm.doctor()
    (total,) = {total for _, total in seen}
    assert [done for done, _ in seen] == list(range(total)) and total > 10


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals here")
def test_the_command_shows_how_far_the_checks_of_doctor_are():
    import pty

    script = Path(sys.executable).parent / "becalm"
    ours, its = pty.openpty()
    child = subprocess.Popen([script, "doctor"], stdout=subprocess.PIPE, stderr=its, text=True)
    os.close(its)
    drawn = bytearray()
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)
    out, _ = child.communicate()
    assert child.returncode == 0 and "checks" in drawn.decode() and ": right" in out


def test_the_command_comes_with_the_wheel():
    script = Path(sys.executable).parent / "becalm"
    for command in ([script], [sys.executable, "-m", "becalm"]):
        listing = subprocess.run([*command, "params"], capture_output=True, text=True, check=True)
        assert "tfhe_2_2" in listing.stdout
        wrong = subprocess.run([*command, "nonsense"], capture_output=True, text=True)
        assert wrong.returncode == 2 and "nonsense" in wrong.stderr
        refused = subprocess.run([*command, "params", "x"], capture_output=True, text=True)
        assert refused.returncode == 3 and "becalm:" in refused.stderr
    run = {"capture_output": True, "text": True, "check": True}
    module = subprocess.run([sys.executable, "-m", "becalm.bench", "--help"], **run)
    verb = subprocess.run([script, "bench", "--help"], **run)
    assert module.stdout == verb.stdout and "Measure" in module.stdout


def test_one_wheel_for_every_python_from_3_10_with_numpy_alone():
    assert NATIVE.__file__.endswith((".abi3.so", ".pyd"))
    wheel = metadata.distribution("becalm")
    assert wheel.metadata["Requires-Python"] == ">=3.10"
    always = [r for r in wheel.requires if "extra ==" not in r]
    assert [r.split(">")[0] for r in always] == ["numpy"]
    assert wheel.version == becalm.__version__
    assert "cp310-abi3" in wheel.read_text("WHEEL")


def test_the_first_example_at_full_size():
    """The lines of the package's own documentation: real keys of 128-bit security."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    (test,) = doctest.DocTestFinder(recurse=False).find(becalm, "becalm")
    runner.run(test)
    assert runner.tries >= 5 and not runner.failures


def test_full_size_with_sums_and_two_inputs():
    secret, server = becalm.keygen("tfhe_2_2", progress=False)
    a, b = np.array([0, 1, 2, 3]), np.array([3, 3, 1, 2])
    x, y = secret.encrypt(a, below=4), secret.encrypt(b, below=4)
    assert np.array_equal(
        secret.decrypt(server.bootstrap(x + y, lambda m: m * m % 16)), (a + b) ** 2 % 16
    )
    assert np.array_equal(secret.decrypt(server.bootstrap2(x, y, lambda a, b: a * b)), a * b)
    assert secret.decrypt_bool(server.and_(secret.encrypt_bool(True), secret.encrypt_bool(True)))


def test_vector_instructions_that_nobody_has_are_refused():
    code = """
import becalm
secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
server.bootstrap(secret.encrypt(1), lambda m: m)
"""
    for name, refused in (("avx1024", True), ("AVX2", True), ("portable", False)):
        environment = os.environ | {"BECALM_SIMD": name}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert (f"got {name}; choose one of these" in done.stderr) is refused, done.stderr
