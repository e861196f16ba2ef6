"""The layers of the Python package; `crates/becalm/tests/layers.rs` has those of the library."""

import ast
from pathlib import Path

import pytest

import becalm
from becalm import _ckks_sets, _native

FOLDER = Path(becalm.__file__).parent

#: A module imports its own group, and the rows before it. Groups of one row do not know each other:
#: nothing of TFHE knows CKKS, and nothing of CKKS knows TFHE.
LAYERS = (
    {
        "common": """_bits _called _encrypted _files _html _lock _machine _names _native_calls
            _numpy _pair _programs _progress _public _values errors"""
    },
    {
        "tfhe": """_integer_arrays _integer_lists _integer_matmul _integer_operations
            _integer_operators _integer_types _integer_words _tfhe_encrypted_table _tfhe_gates
            _tfhe_registers _tfhe_secret_key _tfhe_sets _tfhe_slot_key aes ciphertext
            integers program server""",
        "ckks": """_ckks_arithmetic _ckks_catalogue _ckks_ciphertext _ckks_collective _ckks_computes
            _ckks_cost _ckks_files _ckks_function _ckks_keygen _ckks_pack _ckks_packed
            _ckks_prepared _ckks_program _ckks_secret_key _ckks_server _ckks_sets
            _ckks_threshold _ckks_vector ckks""",
    },
    {
        "both": "_bridge circuit keys",
        "desilo": """_desilo _desilo_arithmetic _desilo_files _desilo_key_files _desilo_matrices
            desilo""",
    },
    {
        "around": """__main__ _cluster _cluster_batch _cluster_job _cluster_stream
            _cluster_workers bench doctor"""
    },
)


def home(name):
    """The module of a name of the package."""
    module = getattr(getattr(becalm, name, None), "__module__", "")
    is_module = (FOLDER / f"{name}.py").exists()
    return name if is_module else module.removeprefix("becalm.")


def imported(module, source=None):
    """The modules of the package that one imports when it runs, within functions too."""
    found = set()

    class Imports(ast.NodeVisitor):
        def visit_If(self, node):
            # Names for types alone are not imported when the module runs.
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                self.generic_visit(node)

        def visit_Import(self, node):
            for alias in node.names:
                package, _, inner = alias.name.partition(".")
                if package == "becalm":
                    # Without a name behind it all of the package is at hand.
                    assert inner, f"{module}: import what is used of the package by its name"
                    found.add(inner)

        def visit_ImportFrom(self, node):
            # Names after dots are those of the package, which has no folders.
            path = f"becalm.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            package, _, inner = path.partition(".")
            if package == "becalm":
                found.update([inner] if inner else [home(alias.name) for alias in node.names])

    Imports().visit(ast.parse(source or (FOLDER / f"{module}.py").read_text(encoding="utf-8")))
    return {name for name in found if (FOLDER / f"{name}.py").exists()}


@pytest.mark.parametrize(
    "source",
    [
        "import becalm.server",
        "import becalm.server as s, os",
        "from becalm import server",
        "from becalm import Server",
        "from becalm.server import Server",
        "from . import server",
        "def f():\n    from .server import Server",
    ],
)
def test_every_form_of_import_is_seen(source):
    assert imported("", source) == {"server"}


def circle(arrows):
    """The modules of which none stands before all others."""
    while True:
        left = {m: [to for to in arrows[m] if to in arrows] for m in arrows}
        named = {to for out in left.values() for to in out}
        within = {m: out for m, out in left.items() if out and m in named}
        if within == arrows:
            return set(within)
        arrows = within


def test_modules_do_not_import_each_other_in_a_circle():
    modules = [file.stem for file in FOLDER.glob("*.py") if file.stem != "__init__"]
    assert len(modules) > 20
    arrows = {module: imported(module) for module in modules}
    assert circle(arrows) == set()
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def back(arrows):
    """The imports that run back, and the modules without a layer."""
    places = {
        module: (row, group)
        for row, groups in enumerate(LAYERS)
        for group, modules in groups.items()
        for module in modules.split()
    }
    wrong = [f"{module}?" for module in places.keys() ^ arrows.keys()]
    for module, to in ((m, to) for m, out in arrows.items() for to in out):
        here, there = places.get(module), places.get(to)
        if here and there and here != there and here[0] <= there[0]:
            wrong.append(f"{module} imports {to}")
    return wrong


def test_no_import_runs_back():
    arrows = {
        file.stem: imported(file.stem) for file in FOLDER.glob("*.py") if file.stem != "__init__"
    }
    assert back(arrows) == []
    for module, to in (
        ("_values", "server"),
        ("server", "_ckks_sets"),
        ("_ckks_sets", "server"),
        ("_ckks_program", "program"),
    ):
        assert back({**arrows, module: {to}}) == [f"{module} imports {to}"]
    assert back({**arrows, "_new": set()}) == ["_new?"]


def test_a_private_module_names_its_scheme():
    """Integers are those of TFHE."""
    schemes = {"tfhe": ("_tfhe_", "_integer_"), "ckks": ("_ckks_",)}
    for name, fronts in schemes.items():
        private = [m for m in LAYERS[1][name].split() if m.startswith("_")]
        assert len(private) > 10 and [m for m in private if not m.startswith(fronts)] == []


def test_the_library_says_which_size_of_keys_is_the_usual_one():
    for file in FOLDER.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        assert "medium" not in [text for text in texts if isinstance(text, str)], file.name
    assert _ckks_sets.USUAL_SIZE == _native.USUAL_KEY_SIZE in _ckks_sets.SIZES


def weighed(text):
    """The lines that weigh memory: a reading that is not an argument, and a comparison with it."""
    tree = ast.parse(text)
    handed = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]
    }

    def reads(node):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        return name in ("free_memory", "available_memory")

    def compares(node):
        return any("free" in ast.unparse(side) for side in [node.left, *node.comparators])

    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and reads(node) and id(node) not in handed)
        or (isinstance(node, ast.Compare) and compares(node))
    ]


def test_no_module_weighs_memory_itself():
    for file in FOLDER.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert weighed(text) == [], f"{file.name}: a call of the library decides"
    planted = (
        "free = _native.free_memory()",
        "if need > free:\n    pass",
        "x = [s for s in a if s <= free]",
    )
    for text in planted:
        assert len(weighed(text)) == 1, text
    assert (
        weighed("plan.require(_native.free_memory())\nf(memory=_native.available_memory())") == []
    )
