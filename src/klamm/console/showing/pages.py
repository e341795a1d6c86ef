"""Pages: templates that escape everything, and elements that stay bound to the values they show.

An element made by `bound` has the value now and says where it comes from (`data-t`), so that the
script can put a newer one there. The same words work in rows: a row is written once as a macro, and
a `<template>` holds an empty one for rows to come.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from jinja2 import ChainableUndefined, Environment, FileSystemLoader, Undefined
from markupsafe import Markup, escape

from klamm.console.showing.formats import FORMATS, shown

_HERE: Final = files("klamm.console")
TYPES: Final[Mapping[str, str]] = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def static_files() -> dict[str, bytes]:
    """Every file that may be served, by name: nothing else is."""
    found = {}
    for entry in sorted(_HERE.joinpath("static").iterdir(), key=lambda e: e.name):
        if entry.name.rpartition(".")[2] in TYPES:
            found[entry.name] = entry.read_bytes()
    return found


def digest(contents: Mapping[str, bytes]) -> str:
    """A name for all static files together: it changes when one of them does."""
    whole = hashlib.sha256()
    for name, content in contents.items():
        whole.update(name.encode() + b"\0" + content)
    return whole.hexdigest()[:12]


def value_at(item: Any, path: str) -> Any:
    """The value at a path such as `controller.id`; None where there is none."""
    for part in path.split(".") if path else ():
        if not isinstance(item, Mapping):
            return None
        item = item.get(part)
    return item


def bound(tag: str, item: Any, what: str, /, **attributes: Any) -> Markup:
    """An element that shows a value: `bound('td', row, 'size|size', class_='num')`."""
    path, _, form = what.partition("|")
    text = FORMATS[form or "shown"](value_at(item, path))
    said = {"data-t": what, **attributes}
    return Markup("<{}{}>{}</{}>").format(Markup(tag), _attributes(said), text, Markup(tag))


def bind(root: str, item: Any, /, **bindings: str) -> Markup:
    """Attributes that follow values: `bind(row, href='link', data_state='state')`.

    A path that begins with `=` is a text in which `{name}` stands for values, as in
    `=/topics/{name}`; each is quoted for an address. `root` stands before what is one.
    """
    said: dict[str, Any] = {}
    bindings = {n: f"={root}{p[1:]}" if p.startswith("=/") else p for n, p in bindings.items()}
    for name, path in bindings.items():
        attribute = name.rstrip("_").replace("_", "-")
        if path[0] == "=":
            said[attribute] = _filled(item, path[1:])
        elif path.endswith("|json"):
            said[attribute] = json.dumps(value_at(item, path.removesuffix("|json")))
        else:
            said[attribute] = value_at(item, path)
    said["data-b"] = ";".join(f"{n.rstrip('_').replace('_', '-')}:{p}" for n, p in bindings.items())
    return _attributes(said)


def _filled(item: Any, pattern: str) -> str:
    out = []
    rest = pattern
    while "{" in rest:
        head, _, rest = rest.partition("{")
        name, _, rest = rest.partition("}")
        value = value_at(item, name)
        text = "" if value is None else str(value)
        out.append(head + quote(text.encode("utf-8", "surrogatepass"), safe=""))
    return "".join([*out, rest])


def _attributes(said: Mapping[str, Any]) -> Markup:
    out = Markup("")
    for name, value in said.items():
        if value is None or value is False:
            continue
        text = "" if value is True else shown(value)
        attribute = name.rstrip("_").replace("_", "-")
        out += Markup(' {}="{}"').format(Markup(attribute), text)
    return out


def _tolerant(form: Callable[[Any], str]) -> Callable[[Any], str]:
    """The same for values that a template does not know."""
    return lambda value: form(None if isinstance(value, Undefined) else value)


def environment(root: str = "") -> Environment:
    """The templates; what is not known is empty, everything is escaped."""
    made = Environment(
        loader=FileSystemLoader(str(_HERE.joinpath("templates"))),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(bound=bound, bind=partial(bind, root), root=root)
    made.filters.update({name: _tolerant(form) for name, form in FORMATS.items()})
    made.filters["json"] = lambda value: escape(json.dumps(value))
    return made
