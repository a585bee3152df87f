#!/usr/bin/env python3
"""Writes src/types.rs and src/operations.rs from the daemon's own description of its API.

    build/cay serve --openapi | sdk/rust/tools/generate.py            writes both
    build/cay serve --openapi | sdk/rust/tools/generate.py --check    says whether both are what it would write

Every schema becomes a struct, an alias or an enum, every body and query of a request a struct, and every operation a
method of `Api`. What the daemon may add later does not break who was compiled before: fields that are not known are
passed over, and an enum has a variant for words that it does not know."""

import json
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

# Routes that are there twice under another name, for clients that were told so: one of each is enough here.
LEFT_OUT = {
    "worker_heartbeat_too": "worker_heartbeat",
    "worker_list_too": "worker_list",
    "worker_select_too": "worker_select",
    "worker_select_get": "worker_select",
    "worker_reap_too": "worker_reap",
    "worker_migrate_too": "worker_migrate",
    "sandbox_network_explain_post": "sandbox_network_explain",
}

KEYWORDS = {"type", "move", "ref", "use", "fn", "mod", "loop", "match", "where", "in", "for", "as", "box", "final", "self", "static", "async"}

HEAD = """// Made by tools/generate.py from the daemon's /openapi.json. Do not edit: run that again.

"""


def snake(name):
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"[^A-Za-z0-9]+", "_", name).lower()


def field(name):
    name = snake(name)
    return f"r#{name}" if name in KEYWORDS else name


def pascal(name):
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name) if part)


def doc(text, indent=""):
    if not text:
        return ""
    text = re.sub(r"([\[\]<>])", r"\\\1", text.replace("\\", "\\\\"))
    if re.match(r"[a-z]+\b(?![_(/:.])", text):
        text = text[0].upper() + text[1:]
    return f"{indent}/// {text}{'' if text[-1] in '.!?' else '.'}\n"


class Types:
    def __init__(self, api):
        self.schemas = api["components"]["schemas"]
        self.done = {}       # name -> text
        self.enums = {}      # (field, words) -> name
        self.asked = set()   # schemas that requests hold: these can be made by callers
        for _, _, operation in operations(api):
            for content in operation.get("requestBody", {}).get("content", {}).values():
                self.hold(content.get("schema", {}))
        self.count_enums(api)

    def hold(self, schema):
        name = ref(schema)
        if name and name not in self.asked:
            self.asked.add(name)
            self.hold(self.schemas[name])
        for part in [*schema.get("properties", {}).values(), *schema.get("oneOf", ()), schema.get("items"), schema.get("additionalProperties")]:
            if isinstance(part, dict):
                self.hold(part)

    # Enums of the same words under the same field are one; it has the field's name when several hold it.

    def count_enums(self, api):
        self.holders = {}

        def walk(schema, owner, name):
            if "enum" in schema:
                self.holders.setdefault((name, tuple(schema["enum"])), []).append(owner)
            for key, part in schema.get("properties", {}).items():
                walk(part, owner, key)
            for part in [*schema.get("oneOf", ()), schema.get("items"), schema.get("additionalProperties")]:
                if isinstance(part, dict):
                    walk(part, owner, name)

        for name, schema in self.schemas.items():
            walk(schema, name, name)
        for _, _, operation in operations(api):
            owner = pascal(operation["operationId"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                walk(content.get("schema", {}), owner, owner)
            for parameter in operation.get("parameters", []):
                walk(in_query(parameter), owner, parameter["name"])

    def enum(self, owner, name, words):
        key = (name, tuple(words))
        if key not in self.enums:
            self.enums[key] = self.enum_name(key, owner)
            variants = "".join(f'    {pascal(word) or "Empty"} = "{word}",\n' for word in words)
            self.done[self.enums[key]] = f"open_enum! {{\n    /// What `{name}` can be.\n    {self.enums[key]},\n{variants}}}\n"
        return self.enums[key]

    def enum_name(self, key, owner):
        taken = set(self.enums.values()) | set(self.schemas)
        holders = self.holders.get(key, [owner])
        candidates = [pascal(key[0])] if len(set(holders)) > 1 else []
        if len(holders) > 1 and any(k[0] == key[0] and k != key for k in self.holders):
            candidates = []
        candidates += [pascal(holders[0]) + pascal(key[0]), pascal(owner) + pascal(key[0])]
        return next(name for name in candidates if name not in taken)

    # The Rust type of a schema that stands in a field.

    def of(self, schema, owner, name):
        if ref(schema):
            return ref(schema)
        if "oneOf" in schema:
            return self.one_of(schema, owner, name)
        kind = schema.get("type")
        if isinstance(kind, list):  # or null
            kind = next(one for one in kind if one != "null")
            return f"Option<{self.of({**schema, 'type': kind}, owner, name)}>"
        if kind == "string":
            words = schema.get("enum", [])
            return self.enum(owner, name, words) if len(words) > 1 else "String"
        if kind == "integer":
            return "u16" if schema.get("maximum") == 65535 else "i64"
        if kind == "number":
            return "f64"
        if kind == "boolean":
            return "bool"
        if kind == "array":
            return f"Vec<{self.of(schema['items'], owner, name)}>"
        if kind == "object" and "properties" in schema:
            inner = pascal(owner) + pascal(name)
            self.struct(inner, schema, True)
            return inner
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"BTreeMap<String, {self.of(schema['additionalProperties'], owner, name)}>"
        return "serde_json::Value"

    def one_of(self, schema, owner, name):
        kinds = [ref(part) or part.get("type") for part in schema["oneOf"]]
        if kinds == ["string", "array"]:
            return "Command"
        if kinds[:2] == ["boolean", "string"]:
            return "NetworkSetting"
        inner = pascal(owner) + pascal(name)
        self.untagged(inner, schema)
        return inner

    # Whole types.

    def schema(self, name):
        schema = self.schemas[name]
        if "oneOf" in schema:
            parts = [ref(part) for part in schema["oneOf"]]
            if all(parts) and all("event" in self.schemas[part].get("properties", {}) for part in parts):
                self.tagged(name, schema, parts)
            elif all(parts):
                self.untagged(name, schema)
            else:
                self.done[name] = f"{doc(schema.get('description'))}pub type {name} = {self.of(schema, name, '')};\n"
        elif schema.get("type") == "object" and "properties" in schema:
            self.struct(name, schema, name in self.asked)
        else:
            self.done[name] = f"{doc(schema.get('description'))}pub type {name} = {self.of(schema, name, name)};\n"

    def untagged(self, name, schema):
        parts = [ref(part) for part in schema["oneOf"]]
        body = "".join(f"    /// {pascal(part)}.\n    {part}({part}),\n" for part in parts)
        self.done[name] = (f"{doc(schema.get('description'))}#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]\n#[serde(untagged)]\n"
                           f"#[non_exhaustive]\npub enum {name} {{\n{body}    /// What a newer daemon may send.\n    Other(serde_json::Value),\n}}\n")

    def tagged(self, name, schema, parts):
        body = ""
        for part in parts:
            words = self.schemas[part]["properties"]["event"]["enum"]
            body += f"    {part.removesuffix('Event')}({part}) = {' | '.join(json.dumps(word) for word in words)},\n"
        self.done[name] = f"event_enum! {{\n{doc(schema.get('description'), '    ')}    {name},\n{body}}}\n"

    def struct(self, name, schema, is_asked, only=None):
        required = set(schema.get("required", []))
        lines = ""
        for key, part in schema["properties"].items():
            kind = self.of(part, name, key)
            rust = field(key)
            attributes = [] if rust.replace("r#", "") == key else [f'rename = "{key}"']
            if key not in required:
                kind = kind if kind.startswith("Option<") else f"Option<{kind}>"
                attributes += ["default", 'skip_serializing_if = "Option::is_none"'] if only != "Serialize" else ['skip_serializing_if = "Option::is_none"']
            lines += doc(part.get("description"), "    ")
            if attributes:
                lines += f"    #[serde({', '.join(attributes)})]\n"
            lines += f"    pub {rust}: {kind},\n"
        derives = ["Debug", "Clone"] + (["Default"] if is_asked else []) + ["PartialEq"] + (only or "Serialize Deserialize").split()
        open_end = "" if is_asked else "#[non_exhaustive]\n"
        self.done[name] = f"{doc(schema.get('description'))}#[derive({', '.join(derives)})]\n{open_end}pub struct {name} {{\n{lines}}}\n"


def ref(schema):
    return schema.get("$ref", "").rsplit("/", 1)[-1] or None


def operations(api):
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] not in LEFT_OUT:
                yield path, method, operation


def in_query(parameter):
    """Objects and lists are described by what they are sent as, which is JSON text; Call::query makes that of them."""
    return parameter.get("schema") or parameter["content"]["application/json"]["schema"]


class Operation:
    """One method of Api, or several where an answer can have more than one form."""

    def __init__(self, path, method, operation, types):
        self.path, self.method, self.operation, self.types = path, method.upper(), operation, types
        self.id = operation["operationId"]
        parameters = operation.get("parameters", [])
        self.in_path = re.findall(r"{(\w+)}", path)
        self.query = [p for p in parameters if p["in"] == "query"]
        self.has_key = any(p["name"] == "Idempotency-Key" for p in parameters)
        self.body = operation.get("requestBody", {}).get("content", {})
        good = next(r for code, r in operation["responses"].items() if code < "4")
        self.answers = good.get("content", {})
        self.upgrades = "101" in operation["responses"]

    def request_types(self):
        name = pascal(self.id)
        if self.query:
            schema = {"properties": {p["name"]: {**in_query(p), "description": p.get("description")} for p in self.query},
                      "required": [p["name"] for p in self.query if p.get("required")],
                      "description": f"What is asked of `{self.id}`, in the query"}
            self.types.struct(f"{name}Query", schema, True, "Serialize")
        if "application/json" in self.body:
            schema = self.body["application/json"]["schema"]
            if not ref(schema):
                schema = {"properties": {}, **schema, "description": f"What is asked of `{self.id}`"}
                self.types.struct(f"{name}Request", schema, True, "Serialize")

    def body_type(self):
        schema = self.body["application/json"]["schema"]
        return ref(schema) or pascal(self.id) + "Request"

    def methods(self):
        text = ""
        if self.upgrades:
            return self.upgrade()
        kinds = {"application/json": ("", "json"), "text/event-stream": ("_events", "events")}
        for content, (_, form) in self.forms().items():
            suffix, _ = kinds.get(content, ("" if len(self.answers) == 1 else "_bytes", None))
            if content == "text/event-stream" and len(self.answers) == 1:
                suffix = ""
            text += self.method_text(suffix, form, content, "json")
        if "application/octet-stream" in self.body:
            text += self.method_text("_from", "json", "application/json", "bytes")
            if "text/event-stream" in self.answers:
                text += self.method_text("_from_events", "events", "text/event-stream", "bytes")
        return text

    def forms(self):
        forms = {}
        for content in self.answers:
            if content == "application/json":
                forms[content] = (content, "json")
            elif content == "text/event-stream":
                forms[content] = (content, "events")
            elif content == "text/plain":
                forms[content] = (content, "text")
            else:
                forms[content] = (content, "bytes")
        return forms

    def arguments(self, sends):
        parts = [f"{snake(p)}: &str" for p in self.in_path]
        if self.query and (sends == "bytes" or "application/octet-stream" not in self.body):
            parts.append(f"query: &{pascal(self.id)}Query")
        if sends == "bytes":
            parts.append("body: impl Into<Payload>")
        elif "application/json" in self.body:
            parts.append(f"body: &{self.body_type()}")
        return "".join(f", {p}" for p in parts)

    def call(self, sends):
        literal = re.sub(r"{\w+}", "{}", self.path.removeprefix("/sandbox"))
        escaped = "".join(f", escape({snake(p)})" for p in self.in_path)
        path = f'format!("{literal}"{escaped})' if self.in_path else f'"{literal}"'
        text = f'self.client.call(Method::{self.method}, {path})'
        if self.has_key:
            text += ".keyed()"
        if self.query and (sends == "bytes" or "application/octet-stream" not in self.body):
            text += ".query(query)?"
        if sends == "bytes":
            text += ".payload(body.into())"
        elif "application/json" in self.body:
            text += ".json(body)?"
        return text

    def method_text(self, suffix, form, content, sends):
        answer = self.answers[content]
        kind = {"json": lambda: ref(answer["schema"]), "events": lambda: f"EventStream<{ref(answer['x-itemSchema'])}>",
                "text": lambda: "String", "bytes": lambda: "ByteStream"}[form]()
        how = f'bytes("{content}")' if form == "bytes" else f"{form}()"
        summary = self.operation.get("summary", "")
        as_ = {"_events": ", and tells what happens meanwhile", "_bytes": ", as bytes", "_from": ", from a stream of bytes",
               "_from_events": ", from a stream of bytes, and tells what happens meanwhile"}.get(suffix, "")
        return (f"{doc(summary + as_, '    ')}    ///\n    /// `{self.method} {self.path}`\n"
                f"    pub async fn {snake(self.id)}{suffix}(&self{self.arguments(sends)}) -> Result<{kind}> {{\n"
                f"        {self.call(sends)}.send_{how}.await\n    }}\n\n")

    def upgrade(self):
        word = "websocket" if self.method == "GET" else "cay-dial" if self.id == "port_dial" else "cay-exec"
        kind, how = ("WebSocket", "websocket()") if word == "websocket" else ("Upgraded", f'upgrade("{word}")')
        return (f"{doc(self.operation.get('summary', ''), '    ')}    ///\n    /// `{self.method} {self.path}`\n"
                f"    pub async fn {snake(self.id)}(&self{self.arguments('json')}) -> Result<{kind}> {{\n"
                f"        {self.call('json')}.send_{how}.await\n    }}\n\n")


def types_text(types):
    text = HEAD + "//! What the daemon is sent and what it answers.\n\nuse std::collections::BTreeMap;\n\nuse serde::{Deserialize, Serialize};\n\n"
    text += "use crate::open::{event_enum, open_enum};\npub use crate::open::{Command, NetworkSetting};\n\n"
    return text + "\n".join(types.done[name] for name in sorted(types.done))


def operations_text(made):
    text = HEAD + "//! Every operation of the daemon, one method each.\n\nuse reqwest::Method;\n\n"
    text += "use crate::call::{escape, ByteStream, Payload, Upgraded};\nuse crate::client::Client;\nuse crate::error::Result;\n"
    text += "use crate::sse::EventStream;\nuse crate::types::*;\nuse crate::websocket::WebSocket;\n\n"
    text += "/// All that the daemon can do, operation by operation, as `/openapi.json` names them. [`Client::api`] gives it.\n"
    text += "///\n/// [`Sandbox`](crate::Sandbox) and the managers are built from these.\n"
    text += "#[derive(Debug, Clone, Copy)]\npub struct Api<'a> {\n    pub(crate) client: &'a Client,\n}\n\n"
    text += "impl Api<'_> {\n" + "".join(operation.methods() for operation in made).rstrip("\n") + "\n}\n\n"
    text += "/// The `operationId`s that [`Api`] has methods for.\npub const OPERATIONS: &[&str] = &[\n"
    text += "".join(f'    "{operation.id}",\n' for operation in made) + "];\n\n"
    text += "/// Those that are another's twin under another path, and that one.\npub const LEFT_OUT: &[(&str, &str)] = &[\n"
    return text + "".join(f'    ("{one}", "{other}"),\n' for one, other in LEFT_OUT.items()) + "];\n"


def main():
    api = json.load(sys.stdin)
    types = Types(api)
    for name in types.schemas:
        types.schema(name)
    made = [Operation(path, method, operation, types) for path, method, operation in operations(api)]
    for operation in made:
        operation.request_types()
    texts = {"types.rs": types_text(types), "operations.rs": operations_text(made)}
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, text in texts.items() if not (SOURCE / name).exists() or (SOURCE / name).read_text() != text]
        if stale:
            sys.exit(f"{', '.join(stale)} of sdk/rust/src: not what /openapi.json gives; `build/cay serve --openapi | sdk/rust/tools/generate.py` writes them")
        return
    for name, text in texts.items():
        (SOURCE / name).write_text(text)


if __name__ == "__main__":
    main()
