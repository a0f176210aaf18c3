"""Elements of SVG as markup in which whatever came from outside is escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """An element; text and values are escaped. `cls` is the attribute class, and `_` in a name is `-`."""
    said = Markup().join(
        Markup(' {}="{}"').format("class" if key == "cls" else key.replace("_", "-"), value)
        for key, value in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, said, Markup().join(map(escape, inside)))


def picture(
    name: str, title: str, desc: str, size: tuple[int, int], inside: Iterable[Markup], *, role: str = "img", **more: int
) -> Markup:
    """A whole picture of that *size*; *name* is its class, and makes the ids of its title and description."""
    told = element("title", title, id=f"{name}-title") + element("desc", desc, id=f"{name}-desc")
    named = {"role": role, "aria_labelledby": f"{name}-title {name}-desc"}
    box = f"0 0 {size[0]} {size[1]}"
    return element("svg", told + Markup().join(inside), cls=f"picture {name}", viewBox=box, **named, **more)


def number(value: float) -> str:
    """A length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
