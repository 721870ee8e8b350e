"""Random JSON schemas, and values that fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

WORDS = ("a", "bc", "é", 'q"', "two words", "<x>", "null", "7")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=12)
HUNDREDTHS = st.integers(-(10**6), 10**6).map(lambda n: n / 100)


def strings() -> st.SearchStrategy[dict[str, Any]]:
    bounds = st.tuples(st.integers(0, 3), st.integers(3, 12))
    return st.one_of(
        st.just({"type": "string"}),
        bounds.map(lambda b: {"type": "string", "minLength": b[0], "maxLength": b[1]}),
        st.lists(st.sampled_from(WORDS), min_size=1, unique=True).map(lambda e: {"type": "string", "enum": e}),
    )


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        strings(),
        st.just({"type": "integer"}),
        st.integers(-50, 50).map(lambda n: {"type": "integer", "minimum": n, "maximum": n + 9}),
        st.just({"type": "number"}),
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
    )


def _containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.tuples(inner, st.integers(0, 2)).map(
            lambda t: {"type": "array", "items": t[0], "minItems": t[1], "maxItems": 3}
        ),
        objects(inner),
        inner.map(lambda s: {"anyOf": [s, {"type": "null"}]}),
    )


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(("a", "b_2", "long-name", "ü"))

    def made(pair: tuple[dict[str, Any], list[bool]]) -> dict[str, Any]:
        properties, wanted = pair
        required = [name for name, want in zip(properties, wanted, strict=False) if want]
        return {"type": "object", "properties": properties, "required": required}

    return st.tuples(st.dictionaries(names, inner, max_size=3), st.lists(st.booleans(), max_size=3)).map(made)


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    return st.recursive(scalars(), _containers, max_leaves=5)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a schema of `schemas`."""
    if "anyOf" in schema:
        return st.one_of([fitting(part) for part in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 12)
        return TEXT.map(lambda t: (t + "xyz")[: max(shortest, len(t))][:longest])
    if kind == "integer":
        return st.integers(schema.get("minimum", -(10**15) + 1), schema.get("maximum", 10**15 - 1))
    if kind == "number":
        return HUNDREDTHS
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    if kind == "array":
        return st.lists(fitting(schema["items"]), min_size=schema["minItems"], max_size=schema["maxItems"])
    required = {n: fitting(s) for n, s in schema["properties"].items() if n in schema["required"]}
    optional = {n: fitting(s) for n, s in schema["properties"].items() if n not in schema["required"]}
    whole = st.fixed_dictionaries(required, optional=optional)
    return whole.map(lambda value: {name: value[name] for name in schema["properties"] if name in value})
