"""Makes src/cay/_models.py and src/cay/_api.py from the daemon's own description of itself, then all twins.

cay serve --openapi | python tools/generate.py
cay serve --openapi | python tools/generate.py --check    fails when they are not as they would be written
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import unasync

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "cay"
HEAD = "# Made from the daemon's /openapi.json by tools/generate.py: change that one, or the daemon.\n"

# Other names for the same thing, for clients of another server; the first ones are there.
LEFT_OUT = {
    "worker_heartbeat_too",
    "worker_list_too",
    "worker_migrate_too",
    "worker_reap_too",
    "worker_select_get",
    "worker_select_too",
}

MODELS_HEAD = '''"""Everything that the daemon says, as types."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Union

from pydantic import Field

from cay._model import Model, absent
'''

API_HEAD = '''"""Every operation of the daemon as a method: `client.api.sandbox_list()`. What is None is not sent, and the daemon's own
default counts. Names and meanings are those of docs/api.md, in the spelling of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, List, Mapping, Optional, Union
from urllib.parse import quote

from cay._model import from_json, from_value

from ._http import Content, end

if TYPE_CHECKING:
    from cay import _models as m

    from ._frames import Attached, Upgraded
    from ._http import Client
    from ._websocket import WebSocket

__all__ = ["Api"]


def _q(part: object) -> str:
    return quote(str(part), safe="")


class Api:
    """The daemon's operations, one by one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def _events(self, model: str, method: str, path: str, **request: Any) -> AsyncIterator[Any]:
        stream = self._client.events(method, path, **request)
        try:
            async for value in stream:
                yield from_value(model, value)
        finally:
            await end(stream)
'''


def snake(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()
    return word + "_" if keyword.iskeyword(word) or word in RESERVED else word


# What a field of a pydantic model cannot be called.
RESERVED = {"copy", "json", "schema", "validate", "construct", "dict", "keys"}


def sentence(text: str, indent: str) -> str:
    lines = textwrap.wrap(text.replace("\\", "\\\\"), 130 - len(indent))
    return ("\n" + indent).join(lines)


def union(types: list[str]) -> str:
    seen = list(dict.fromkeys(types))
    return seen[0] if len(seen) == 1 else f"Union[{', '.join(seen)}]"


def type_of(schema: dict[str, Any], prefix: str = "") -> str:
    """The annotation for what the daemon says. Words that it may say are not checked: a newer one may know more."""
    if "$ref" in schema:
        return prefix + schema["$ref"].rsplit("/", 1)[1]
    if "oneOf" in schema or "anyOf" in schema:
        return union([type_of(s, prefix) for s in schema.get("oneOf") or schema["anyOf"]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        one = union([type_of({**schema, "type": kind}, prefix) for kind in kinds if kind != "null"])
        return f"Optional[{one}]" if "null" in kinds else one
    if kinds == "string" and len(schema.get("enum", ())) == 1:
        return f"Literal[{json.dumps(schema['enum'][0])}]"
    if kinds == "string" and "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    if kinds == "array":
        return f"List[{type_of(schema.get('items', {}), prefix)}]"
    if kinds == "object":
        of = schema.get("additionalProperties")
        return f"Dict[str, {type_of(of, prefix) if isinstance(of, dict) else 'Any'}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(str(kinds), "Any")


def argument_type(schema: dict[str, Any]) -> str:
    """The annotation for what is sent: an object may be given as its model or as a mapping."""
    if "$ref" in schema:
        return f"Union[{type_of(schema, 'm.')}, Mapping[str, Any]]"
    if "oneOf" in schema:
        inner = [argument_type(s) for s in schema["oneOf"]]
        return union([re.sub(r"^Union\[(.*)\]$", r"\1", t) for t in inner])
    if schema.get("type") == "array":
        return f"List[{argument_type(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        return re.sub(r"^Dict\[", "Mapping[", type_of(schema, "m."))
    plain = {k: v for k, v in schema.items() if k not in ("enum", "const")}
    return type_of(plain, "m.")


def model(name: str, schema: dict[str, Any]) -> str:
    lines = [f"class {name}(Model):", f'    """{sentence(capital(schema.get("description", name)), "    ")}."""', ""]
    required = set(schema.get("required", ()))
    for key, field in schema["properties"].items():
        attribute, annotation = snake(key), type_of(field)
        alias = "" if attribute == key else f"alias={json.dumps(key)}"
        if key not in required:
            annotation = annotation if annotation.startswith("Optional[") else f"Optional[{annotation}]"
            default = f"Field(None, {alias})" if alias else "None"
            lines.append(f"    {attribute}: {annotation} = {default}")
        else:
            # An older daemon may not say it yet; what tells events apart is always there.
            kept = [] if annotation.startswith("Literal[") else ["default_factory=absent"]
            how = ", ".join(kept + [alias] * bool(alias))
            lines.append(f"    {attribute}: {annotation}" + (f" = Field({how})" if how else ""))
        if field.get("description"):
            lines.append(f'    """{sentence(capital(field["description"]), "    ")}."""')
    return "\n".join(lines) + "\n"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def alias(name: str, schema: dict[str, Any]) -> str:
    annotation = type_of(schema)
    if "oneOf" in schema and name.endswith("Event"):
        annotation = annotation[:-1] + ", Dict[str, Any]]"  # one that this version does not know
    return f'{name} = {annotation}\n"""{capital(schema.get("description", name))}."""\n'


def models(document: dict[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    parts = [HEAD + MODELS_HEAD]
    parts += [model(name, s) for name, s in schemas.items() if "properties" in s]
    parts.append("\n\n".join([alias(name, s) for name, s in ordered_aliases(schemas)]))
    return "\n\n".join(parts)


def ordered_aliases(schemas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Those that others are made of come first."""
    found = {name: s for name, s in schemas.items() if "properties" not in s}
    return sorted(
        found.items(), key=lambda item: any(f'"#/components/schemas/{n}"' in json.dumps(item[1]) for n in found)
    )


def schema_of(parameter: dict[str, Any]) -> dict[str, Any]:
    """What a part of the query is: a word, or JSON."""
    schema: dict[str, Any] = parameter.get("schema") or parameter["content"]["application/json"]["schema"]
    return schema


class Operation:
    """One method."""

    def __init__(self, path: str, method: str, raw: dict[str, Any]) -> None:
        self.path, self.method, self.raw = path, method.upper(), raw
        self.name = raw["operationId"]
        parameters = raw.get("parameters", [])
        self.in_path = [p["name"] for p in parameters if p["in"] == "path"]
        self.query = [(p["name"], schema_of(p), bool(p.get("required"))) for p in parameters if p["in"] == "query"]
        self.has_key = any(p["in"] == "header" and p["name"] == "Idempotency-Key" for p in parameters)
        bodies = raw.get("requestBody", {}).get("content", {})
        self.is_raw = "application/octet-stream" in bodies
        schema = {} if self.is_raw else bodies.get("application/json", {}).get("schema", {})
        required = set(schema.get("required", ()))
        self.body = [(key, s, key in required) for key, s in schema.get("properties", {}).items()]
        self.has_body = bool(schema)
        answers = {code: r for code, r in raw["responses"].items() if code[0] in "12"}
        (self.code, answer), *_ = answers.items()
        self.answer = answer
        self.types = answer.get("content", {})

    def signature(self, returns: str, is_async: bool, name: str) -> str:
        taken = [f"{snake(p)}: str" if p != "port" else "port: int" for p in self.in_path]
        fields = [f for f in self.query + self.body if f[0] not in self.in_path]
        taken += [f"{snake(key)}: {argument_type(s)}" for key, s, needed in fields if needed]
        optional = [f"{snake(key)}: Optional[{argument_type(s)}] = None" for key, s, needed in fields if not needed]
        if self.is_raw:
            optional.insert(0, 'content: Content = b""')
        arguments = ["self", *taken] + (["*", *optional] if optional else [])
        head = "async def" if is_async else "def"
        one = f"    {head} {name}({', '.join(arguments)}) -> {returns}:"
        if len(one) <= 120:
            return one
        return f"    {head} {name}(\n" + "".join(f"        {a},\n" for a in arguments) + f"    ) -> {returns}:"

    def route(self) -> str:
        path = self.path[len("/sandbox") :]
        if not self.in_path:
            return json.dumps(path)
        return 'f"' + re.sub(r"\{(\w+)\}", lambda m: "{_q(" + snake(m[1]) + ")}", path) + '"'

    def request(self) -> str:
        def pairs(fields: list[Any]) -> str:
            return "{" + ", ".join(f"{json.dumps(key)}: {snake(key)}" for key, _, _ in fields) + "}"

        text = ""
        if self.query:
            text += f", query={pairs(self.query)}"
        if self.has_body:
            text += f", json={pairs(self.body)}"
        return text

    def doc(self, more: str = "") -> str:
        return f'        """{sentence(self.raw["summary"] + more + ".", "        ")}"""'

    def render(self) -> list[str]:
        if self.code == "101":
            return [self.upgrade()]
        plain = [t for t in self.types if t != "text/event-stream"]
        out = []
        if "application/octet-stream" in plain or "application/x-tar" in plain or "application/x-asciicast" in plain:
            out.append(self.download(next(t for t in plain if t != "application/json")))
        elif plain == ["text/plain"]:
            out.append(self.text())
        elif plain:
            out.append(self.call())
        if "text/event-stream" in self.types:
            out.append(self.events(self.name + "_events" if plain else self.name))
        return out

    def upgrade(self) -> str:
        said = self.answer["description"]
        if "WebSocket" in said:
            returns, call = (
                "WebSocket",
                f"self._client.websocket({self.route()}" + self.request().replace("query=", "", 1) + ")",
            )
        elif "frames" in said:
            returns, call = (
                "Attached",
                f"self._client.attach({self.route()}" + self.request().replace("json=", "", 1) + ")",
            )
        else:
            returns, call = "Upgraded", f"self._client.dial({self.route()})"
        return "\n".join([self.signature(returns, True, self.name), self.doc(), f"        return await {call}\n"])

    def download(self, accept: str) -> str:
        request = self.request() + f', method="{self.method}"' * (self.method != "POST")
        request += f', accept="{accept}"' * (accept != "application/octet-stream")
        return "\n".join(
            [
                self.signature("AsyncIterator[bytes]", False, self.name),
                self.doc(", piece by piece"),
                f"        return self._client.download({self.route()}{request})\n",
            ]
        )

    def text(self) -> str:
        call = f'await self._client.call_bytes("{self.method}", {self.route()}{self.request()}, accept="text/plain")'
        return "\n".join([self.signature("str", True, self.name), self.doc(), f"        return ({call}).decode()\n"])

    def flags(self) -> str:
        text = ", idempotent=True" if self.has_key else ""
        if self.method == "POST" and self.raw.get("x-scope") == "read":
            text += ", again=True"
        return text

    def call(self) -> str:
        schema = self.types["application/json"]["schema"]
        name = schema["$ref"].rsplit("/", 1)[1]
        raw = ", content=content" if self.is_raw else ""
        return "\n".join(
            [
                self.signature(f"m.{name}", True, self.name),
                self.doc(),
                "        content_ = await self._client.call_bytes(",
                f'            "{self.method}", {self.route()}{self.request()}{self.flags()}{raw}',
                "        )",
                f'        answer: m.{name} = from_json("{name}", content_)',
                "        return answer\n",
            ]
        )

    def events(self, name: str) -> str:
        model = self.types["text/event-stream"]["x-itemSchema"]["$ref"].rsplit("/", 1)[1]
        flags = ", idempotent=True" if self.has_key else ""
        flags += ", content=content" if self.is_raw else ""
        more = ", and tells how far it is" if name != self.name else ""
        return "\n".join(
            [
                self.signature(f"AsyncIterator[m.{model}]", False, name),
                self.doc(more),
                f'        return self._events("{model}", "{self.method}", {self.route()}{self.request()}{flags})\n',
            ]
        )


def operations(document: dict[str, Any]) -> list[Operation]:
    every = [Operation(path, method, raw) for path, item in document["paths"].items() for method, raw in item.items()]
    return [o for o in every if o.name not in LEFT_OUT]


def api(document: dict[str, Any]) -> str:
    parts = [part for operation in operations(document) for part in operation.render()]
    return unasync.MARK + HEAD + API_HEAD + "\n" + "\n".join(parts)


def main() -> int:
    document = json.load(sys.stdin)
    made = {"_models.py": models(document), "_api.py": api(document)}
    stale = [
        name for name, text in made.items() if not (PACKAGE / name).exists() or (PACKAGE / name).read_text() != text
    ]
    if "--check" in sys.argv and stale:
        print("not as tools/generate.py makes them: " + ", ".join(stale), file=sys.stderr)
        return 1
    for name in stale:
        (PACKAGE / name).write_text(made[name])
    return unasync.main()


if __name__ == "__main__":
    sys.exit(main())
