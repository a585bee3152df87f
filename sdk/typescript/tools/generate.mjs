#!/usr/bin/env node
// Writes the types and the table of operations from the daemon's own description:
//   cay serve --openapi | sdk/typescript/tools/generate.mjs >sdk/typescript/src/generated.ts
import { readFileSync } from "node:fs";

const document = JSON.parse(readFileSync(0, "utf8"));
// These two would hide names that every program has a use for.
const renamed = { Sandbox: "SandboxInfo", Error: "ErrorBody" };
const out = [];

const pascal = (id) =>
  id
    .split("_")
    .map((w) => w[0].toUpperCase() + w.slice(1))
    .join("");
const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const note = (text, indent) => (text ? `${indent}/** ${text.replaceAll("*/", "*\\/")} */\n` : "");

/** open: the daemon may say words that this version does not know yet, so the type takes any. */
function type(schema, open) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return renamed[name] ?? name;
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map((s) => type(s, open)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) {
    const words = schema.enum.map((w) => JSON.stringify(w));
    if (open && words.length > 1) words.push("OtherWord");
    return words.join(" | ");
  }
  if (Array.isArray(schema.type))
    return schema.type.map((t) => type({ ...schema, type: t }, open)).join(" | ");
  switch (schema.type) {
    case "array": {
      const item = type(schema.items, open);
      return item.includes(" ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (schema.properties) return `{\n${members(schema, open, "  ")}}`;
      return typeof schema.additionalProperties === "object"
        ? `Record<string, ${type(schema.additionalProperties, open)}>`
        : "Record<string, unknown>";
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function members(schema, open, indent) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties)
    .map(([name, s]) => {
      const optional = !required.has(name);
      return `${note(s.description, indent)}${indent}${key(name)}${optional ? "?" : ""}: ${type(s, open)}${optional && !open ? " | undefined" : ""};\n`;
    })
    .join("");
}

function schemas() {
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const called = renamed[name] ?? name;
    if (schema.type === "object" && schema.properties)
      out.push(
        `${note(schema.description, "")}export interface ${called} {\n${members(schema, true, "  ")}}\n`,
      );
    else out.push(`${note(schema.description, "")}export type ${called} = ${type(schema, true)};\n`);
  }
}

/** What an operation takes, as one flat object: the daemon makes one of path, query and body too. */
function input(operation) {
  const body = operation.requestBody?.content["application/json"]?.schema;
  const fields = { type: "object", properties: {}, required: [] };
  for (const p of operation.parameters ?? []) {
    if (p.in === "header") continue;
    const schema = p.schema ?? p.content["application/json"].schema;
    fields.properties[p.name] = { ...schema, description: p.description };
    if (p.required) fields.required.push(p.name);
  }
  Object.assign(fields.properties, body?.properties ?? {});
  fields.required.push(...(body?.required ?? []));
  return fields;
}

const content = (operation) =>
  Object.entries(operation.responses).find(([status]) => status[0] === "2")?.[1].content ?? {};

function output(operation) {
  const json = content(operation)["application/json"];
  return json ? type(json.schema, true) : "undefined";
}

function event(operation) {
  const events = content(operation)["text/event-stream"];
  return events?.["x-itemSchema"] ? type(events["x-itemSchema"], true) : "never";
}

function operations() {
  const types = [];
  const rows = [];
  for (const [path, item] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(item)) {
      const id = operation.operationId;
      const name = `${pascal(id)}Input`;
      const fields = input(operation);
      const keyed = (operation.parameters ?? []).some((p) => p.name === "Idempotency-Key");
      const upgrade = operation.responses["101"] !== undefined;
      out.push(
        `/** What ${id} takes: ${operation.summary}. */\nexport interface ${name} {\n${members(fields, false, "  ")}}\n`,
      );
      types.push(
        `${note(operation.summary, "  ")}  ${id}: { input: ${name}; output: ${output(operation)}; event: ${event(operation)} };\n`,
      );
      rows.push(
        `  ${id}: { method: ${JSON.stringify(method.toUpperCase())}, path: ${JSON.stringify(path)}` +
          `${keyed ? ", keyed: true" : ""}${upgrade ? ", upgrade: true" : ""} },\n`,
      );
    }
  out.push(`export interface Operations {\n${types.join("")}}\n`);
  out.push(
    "/** Where each operation is; keyed: it takes an Idempotency-Key; upgrade: its answer is a connection. */\n" +
      "export const operations: { readonly [K in keyof Operations]: OperationRow } = {\n" +
      `${rows.join("")}};\n`,
  );
}

function codes() {
  const words = document["x-errors"].map(
    (e) => `${note(e.description, "  ")}  | ${JSON.stringify(e.code)}\n`,
  );
  out.push(
    `/** The stable words of the daemon's errors. */\nexport type ErrorCode =\n${words.join("")}  | OtherWord;\n`,
  );
}

out.push(`// Made by tools/generate.mjs from \`cay serve --openapi\`; do not edit.

/** A word that a newer daemon may say. */
export type OtherWord = string & Record<never, never>;

export interface OperationRow {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly keyed?: true;
  readonly upgrade?: true;
}

/** The version of the daemon that these types are of. */
export const apiVersion = ${JSON.stringify(document.info.version)};
`);
schemas();
operations();
codes();
process.stdout.write(out.join("\n"));
