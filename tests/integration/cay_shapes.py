"""Holds every answer that a test sees against its row of /openapi.json.

A deviation is kept and fails the test at its end, so that no `try` on the way hides it."""

import functools
import json
import os
import re
import subprocess

deviations = []  # since the last look


class Deviation(Exception):
    pass


# ---- values against schemas ----


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": is_number,
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


class Schemas:
    """A validator for what cay's schemas use. It is strict: an object with properties has no others."""

    def __init__(self, document):
        self.schemas = document["components"]["schemas"]

    def check(self, schema, value, where):
        if "$ref" in schema:
            return self.check(self.schemas[schema["$ref"].rsplit("/", 1)[1]], value, where)
        if "oneOf" in schema:
            return self.check_one_of(schema["oneOf"], value, where)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(TYPES[kind](value) for kind in kinds):
            raise Deviation(f"{where} is no {' or '.join(kinds)}: {str(value)[:100]!r}")
        if "enum" in schema and value not in schema["enum"]:
            raise Deviation(f"{where} is none of {schema['enum']}: {value!r}")
        if is_number(value) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise Deviation(f"{where} is out of range: {value}")
        if isinstance(value, dict):
            self.check_object(schema, value, where)
        elif isinstance(value, list):
            if len(value) < schema.get("minItems", 0):
                raise Deviation(f"{where} is too short")
            for n, item in enumerate(value):
                self.check(schema.get("items", {}), item, f"{where}[{n}]")

    def check_object(self, schema, value, where):
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", None if known else {})
        for key in schema.get("required", []):
            if key not in value:
                raise Deviation(f"{where} has no {key}")
        for key, item in value.items():
            if key in known:
                self.check(known[key], item, f"{where}.{key}")
            elif rest is None:
                raise Deviation(f"{where} has {key}, which its shape has not")
            else:
                self.check(rest, item, f"{where}.{key}")

    def check_one_of(self, choices, value, where):
        why = []
        for choice in choices:
            try:
                self.check(choice, value, where)
            except Deviation as e:
                why.append(f"{choice.get('$ref', choice)}: {e}")
        if len(why) != len(choices) - 1:
            raise Deviation(f"{where} is not exactly one of its shapes: {'; '.join(why)}")


# ---- answers against rows ----


class Document:
    def __init__(self, document):
        self.document = document
        self.schemas = Schemas(document)
        self.codes = {e["code"]: e for e in document["x-errors"]}
        self.rows = []
        for path, item in document["paths"].items():
            below = path.split("/", 2)[2]  # the prefix is the daemon's own choice
            pattern = re.compile("/" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(below)))
            for method, operation in item.items():
                self.rows.append((below.count("{"), method.upper(), pattern, operation))
        self.rows.sort(key=lambda row: row[0])  # as the router: fewer parameters win

    def row(self, method, path):
        path = path.split("?")[0]
        for _, m, pattern, operation in self.rows:
            if m == method and pattern.fullmatch(path):
                return operation
        return None

    def check_head(self, row, status, kind):
        """The status and the type of what follows."""
        if status in (200, 101):
            answer = row["responses"].get(str(status)) if row else None
            if answer is None:
                raise Deviation(f"{status} is no success of this row")
            if kind is not None and kind not in answer.get("content", {}):
                raise Deviation(f"it answers {kind}, which its row does not give")
        elif kind not in (None, "application/json"):
            raise Deviation(f"a failure as {kind}")

    def check_error(self, row, status, said):
        self.schemas.check({"$ref": "#/components/schemas/Error"}, said, "Error")
        code = self.codes.get(said["code"])
        if not code:
            raise Deviation(f"the code {said['code']} ({status}) is in no list")
        if not code["general"] and said["code"] not in (row or {}).get("x-errors", []):
            raise Deviation(f"the code {said['code']} ({status}) is not one of this row's")
        if status not in code["statuses"]:
            raise Deviation(f"the code {said['code']} comes with {status}")

    def check_body(self, row, status, kind, body):
        if kind != "application/json":
            return
        said = json.loads(body)
        if status != 200:
            self.check_error(row, status, said)
            return
        media = (row or {}).get("responses", {}).get("200", {}).get("content", {}).get(kind)
        if media:  # else the head was noted
            schema = media["schema"]
            self.schemas.check(schema, said, schema["$ref"].rsplit("/", 1)[1])

    def check_event(self, row, event):
        schema = row["responses"]["200"]["content"]["text/event-stream"]["x-itemSchema"]
        self.schemas.check(schema, event, schema["$ref"].rsplit("/", 1)[1])
        if event.get("event") == "error":
            self.check_error(row, event["status"], {k: event[k] for k in ("error", "code")})


@functools.lru_cache
def document(binary):
    """What that program's daemons say about themselves."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
    done = subprocess.run([binary, "serve", "--openapi"], capture_output=True, check=True, env=env)
    return Document(json.loads(done.stdout))


class Answer:
    """One request to a daemon of that program, with the path below its prefix."""

    def __init__(self, binary, method, path):
        self.what = f"{method} {path}"
        self.document = document(binary)
        self.row = self.document.row(method, path)
        self.checked = method not in ("HEAD", "OPTIONS")

    def _note(self, check, *args):
        try:
            if self.checked:
                check(self.row, *args)
        except Deviation as e:
            deviations.append(f"{self.what}: {e}")

    def head(self, status, kind):
        self._note(self.document.check_head, status, kind)

    def body(self, status, kind, body):
        self._note(self.document.check_body, status, kind, body)

    def event(self, event):
        self._note(self.document.check_event, event)


def below(prefix, path):
    """What the router looks for; /openapi.json and metrics for Prometheus are served outside of the prefix too."""
    if path == "/metrics" and prefix:
        return "/metrics/prometheus"
    return path[len(prefix):] if path.startswith(prefix + "/") else path


def media_type(header):
    return header.split(";")[0].strip() if header else None


def check_raw(binary, prefix, sent, came):
    """The first answer to bytes that may be no request at all."""
    asked = re.match(rb"([A-Z]+) (/[!-~]*) HTTP/1\.[01]\r\n", sent)
    head, blank, rest = came.partition(b"\r\n\r\n")
    line, _, fields = head.partition(b"\r\n")
    status = re.fullmatch(rb"HTTP/1\.1 (\d{3}) [ -~]*", line)
    length = re.search(rb"(?im)^content-length: *(\d+)", fields)
    kind = re.search(rb"(?im)^content-type: *([^;\r]+)", fields)
    if not blank or not status or not length or len(rest) < int(length[1]):
        return
    method, path = (asked[1].decode(), asked[2].decode()) if asked else ("?", "")
    answer = Answer(binary, method, below(prefix, path))
    status, kind = int(status[1]), kind[1].decode() if kind else None
    answer.head(status, kind)
    answer.body(status, kind, rest[:int(length[1])])
