"""Turns the pages of the repository into a site: links, pictures and code blocks.

The pages stand in docs/ and link to files around them, as any viewer of a repository shows them.
The site has these files under project/. `<!-- plot: NAME -->` becomes a picture of plots.py, and
every notebook a page with its stored outputs.
"""

import json
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

sys.path.insert(0, str(Path(__file__).parent))
import plots

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
#: The mark behind a language tells the tests how a block runs, and readers nothing.
MARK = re.compile(r"^```(\w+) \w+$", re.M)
CODE_IN_CELL = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
PLOT = re.compile(r"<!-- plot: (\w+) -->")
RUST = "<!-- rust -->"
#: The reference is copied behind the build, so this link is one that the engine does not check.
OPEN = '<a href="../rust/becalm/index.html">Open the reference of the crates</a>'

#: Search in pages that are opened as files needs this script; the theme would fetch it.
SHIM, SHIM_HERE = "https://unpkg.com/iframe-worker/shim", "assets/javascripts/iframe-worker.js"


def home(uri):
    """The path in the repository of a page or file of the site."""
    return uri.removeprefix("project/") if uri.startswith("project/") else f"docs/{uri}"


def place(path):
    """The path in the site of a file of the repository."""
    if path.startswith("docs/"):
        path = path.removeprefix("docs/")
        return path.removesuffix(".ipynb") + ".md" if path.endswith(".ipynb") else path
    return f"project/{path}{'' if '.' in posixpath.basename(path) else '.txt'}"


def outside(link, uri):
    """The path in the repository that a link leads to; None for addresses and headings."""
    path = link.partition("#")[0]
    if not path or re.match(r"\w+:", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(home(uri)), path))


def notebook(text, name):
    """The page of a notebook: its text, its code, and what the code showed."""
    title, *cells = json.loads(text)["cells"]
    download = f'<a href="{name}" download>Download this notebook</a>'
    parts = ["".join(title["source"]), download]
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = output.get("data", {"text/plain": output.get("text", [])})
            if picture := shown.get("image/svg+xml"):
                parts.append("".join(picture))
            else:
                plain = "".join(shown["text/plain"]).rstrip()
                parts.append(f"```text\n{plain}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files, config):
    """Adds the style, the pictures, the notebooks, and files around docs/ that pages link to."""
    style = (Path(__file__).parent / "site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/site.css", content=style))
    for name, (draw, _) in plots.PLOTS.items():
        files.append(File.generated(config, f"img/plots/{name}.svg", content=draw()))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        name = posixpath.basename(file.src_uri)
        content, uri = notebook(file.content_string, name), place(f"docs/{file.src_uri}")
        files.append(File.generated(config, uri, content=content))
    todo = [file for file in files if file.src_uri.endswith(".md")]
    seen = {file.src_uri for file in files}
    while todo:
        page = todo.pop()
        for _, link, _ in LINK.findall(FENCED.sub("", page.content_string)):
            path = outside(link, page.src_uri)
            uri = path and place(path)
            if uri and uri not in seen and uri.startswith("project/") and (ROOT / path).is_file():
                content = (ROOT / path).read_bytes()
                added = File.generated(config, uri, content=content)
                files.append(added)
                seen.add(uri)
                if uri.endswith(".md"):
                    todo.append(added)
    return files


def on_page_markdown(markdown, page, config, files):
    """Links lead to places of the site, and blocks have a language alone."""
    uri = page.file.src_uri

    def link(found):
        path = outside(found[2], uri)
        if path is None:
            return found[0]
        _, sign, anchor = found[2].partition("#")
        to = posixpath.relpath(place(path), posixpath.dirname(uri) or ".")
        return f"{found[1]}{to}{sign}{anchor}{found[3]}"

    def plot(found):
        _, words = plots.PLOTS[found[1]]
        start = posixpath.relpath(f"img/plots/{found[1]}.svg", posixpath.dirname(uri) or ".")
        return f"![{words}]({start})"

    def text(part):
        part = CODE_IN_CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), part)
        # A list needs an empty line before it here.
        part = re.sub(r"^((?![-*|>#\s]|\d+\.).*\S)\n(?=[-*] |\d+\. )", r"\1\n\n", part, flags=re.M)
        part = PLOT.sub(plot, LINK.sub(link, part))
        return part.replace(RUST, OPEN if rust() else "")

    parts = FENCED.split(markdown)
    return "".join(
        MARK.sub(r"```\1", part) if i % 2 else text(part) for i, part in enumerate(parts)
    )


def rust():
    """The reference of the crates, if `make docs` has made it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    made = target / "doc"
    return made if (made / "becalm" / "index.html").is_file() else None


def on_post_page(output, page, config):
    return output.replace(SHIM, get_relative_url(SHIM_HERE, page.url))


def on_post_template(output_content, template_name, config):
    return output_content.replace(SHIM, SHIM_HERE)


def on_post_build(config):
    place = Path(config.site_dir) / SHIM_HERE
    shutil.copyfile(Path(__file__).parent / "iframe-worker" / "shim.js", place)
    made = rust()
    if made:
        shutil.copytree(made, Path(config.site_dir) / "rust", dirs_exist_ok=True)
