"""In a notebook cells show tables, and long work shows a bar. Neither holds a secret."""

import html
import re

import nbformat
import pytest
from nbclient import NotebookClient

import becalm

#: Each source is a cell; the last expression is what it shows.
CELLS = (
    "import becalm\nsecret, server = becalm.keygen('toy_2_2', allow_insecure=True)\nsecret",
    "server",
    "secret.encrypt([[3, 1, 2]])",
    "secret.encrypt([500, 3], becalm.uint(16)).on(server)",
    "becalm.uint(64).cost('mul')",
    "becalm.params()",
    "becalm.params('tfhe_2_2')",
    "becalm.ckks.params()",
    "becalm.ckks.price('ckks_n14')",
    "p = becalm.Program('toy_2_2')\np.output(p.lookup(p.input(), lambda m: m))\np",
    "from becalm import _progress\nimport time\n"
    "with _progress.shown(None, 'keys', 0.0) as bar:\n"
    "    for i in range(5):\n        time.sleep(0.25)\n        bar(i, 4)\n",
    "with _progress.shown(None, 'quick', 60.0) as bar:\n    bar(1, 2)\n",
    "with _progress.shown(False, 'silent', 0.0) as bar:\n    assert bar is None\n",
    "try:\n    with _progress.shown(None, 'cut', 0.0) as bar:\n        bar(1, 2)\n        1 / 0\n"
    "except ZeroDivisionError:\n    pass\n",
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, from the kernel of a real notebook."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(cwd=str(tmp_path_factory.mktemp("notebook")))
    return [cell.outputs for cell in notebook.cells]


def shown(cell):
    """The page's form of what a cell shows, and its plain one."""
    results = [o for o in cell if o.output_type == "execute_result"]
    assert len(results) == 1, cell
    return results[0].data["text/html"], results[0].data["text/plain"]


def test_cells_show_tables(outputs):
    words = [
        *(("becalm.SecretKey", "toy_2_2"), ("becalm.Server", "540.7 kB"), ("0 to 15", "(1, 3)")),
        *(("uint16", "(2,)"), ("bootstraps", "1,192"), ("tfhe_2_2", "cm_4_4_w10")),
        *(("polynomial size", "2048"), ("ckks_n14", "levels"), ("keys in memory", "MB")),
        ("instructions", "outputs"),
    ]
    for cell, wanted in zip(outputs[:10], words, strict=True):
        page, plain = shown(cell)
        assert page.startswith("<table>") and page.endswith("</table>")
        assert page.count("<tr>") == page.count("</tr>") > 1
        text = html.unescape(re.sub("<[^>]*>", " ", page))
        assert all(word in text for word in wanted), text
        assert re.match(r"\[?<becalm\.|\[?(Params|Price|Cost)\(", plain), plain
    rows = shown(outputs[5])[0].count("<tr>")
    assert rows == len(becalm.params()) + 1


def test_bars_are_drawn_in_the_page_and_end_in_a_line(outputs):
    texts = [[o.data.get("text/html", "") for o in c if "data" in o] for c in outputs[10:]]
    assert len(texts[0]) == 1 and re.fullmatch(r"keys: done after \d+\.\d s", texts[0][0]), texts[0]
    assert texts[1] == [] and texts[2] == []
    assert len(texts[3]) == 1 and re.fullmatch(r"cut: stopped after \d+\.\d s", texts[3][0])
    errors = [o for c in outputs for o in c if o.output_type == "error"]
    assert errors == []


def test_a_bar_of_a_notebook_is_an_element_of_the_page(monkeypatch):
    drawn = []
    bar = becalm._progress.NotebookBar("keys", 0.0)
    monkeypatch.setattr(bar, "_show", drawn.append)
    bar(1, 4)
    assert drawn[0].startswith('keys <progress value="0.250" max="1"></progress> 25%')
    # Outside a notebook IPython is not asked.
    assert not becalm._progress.in_notebook()


def test_nothing_is_taken_for_markup_or_shows_a_secret(toy):
    secret, server = toy
    page = becalm._html.facts("<b>", [("a&b", "<script>"), ("none", None)])
    assert "<script>" not in page and "a&amp;b" in page and "none" not in page
    x = secret.encrypt([[3, 1]])
    things = [
        *(secret, server, x, secret.encrypt_table(lambda m: m), secret.encrypt(b"becalm")),
        *(becalm.aes128(secret, b"becalm, 16 bytes"), becalm.uint(8), becalm.Table("toy_2_2", abs)),
        becalm.circuit.trace(lambda a, b: a & b, 3, 3),
    ]
    for thing in things:
        page = thing._repr_html_()
        assert page.startswith("<table>") and "becalm" in page and " object at 0x" not in page
        assert "becalm, 16 bytes" not in page
    private = becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)
    for thing in (private, *private, private.secret.encrypt([0.5]), private.secret.public_key()):
        assert private.secret.key_id in thing._repr_html_()
    assert "rotations" in becalm.ckks.Matrix([[0.5, 1], [2, 0]])._repr_html_()
    encoded = private.server.encode([0.5])
    assert "level" in encoded._repr_html_()
