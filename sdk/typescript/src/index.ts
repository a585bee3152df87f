import "./dispose.js";

export { AttachedCommand, type AttachOptions, type OutputPiece, type ReattachOptions } from "./attach.js";
export type { Content } from "./bytes.js";
export {
  Cay,
  type CreateOptions,
  createSandbox,
  getSandbox,
  type ListOptions,
  listSandboxes,
  listTemplates,
} from "./cay.js";
export {
  type ByteAnswer,
  type ClientConfig,
  type EventOf,
  HttpClient,
  type InputOf,
  type OperationId,
  type OutputOf,
} from "./client.js";
export * from "./errors.js";
export { EventStream } from "./events.js";
export { BackgroundCommand, type Command, type ExecBytes, type ExecOptions, ExecStream } from "./exec.js";
export type { ExecEnd } from "./frames.js";
export type * from "./generated.js";
export { apiVersion } from "./generated.js";
export * from "./managers/admin.js";
export * from "./managers/env.js";
export * from "./managers/events.js";
export * from "./managers/filesystem.js";
export * from "./managers/git.js";
export * from "./managers/images.js";
export * from "./managers/interpreter.js";
export * from "./managers/monitor.js";
export * from "./managers/network.js";
export * from "./managers/observability.js";
export * from "./managers/ports.js";
export * from "./managers/processes.js";
export * from "./managers/queue.js";
export * from "./managers/snapshots.js";
export * from "./managers/streams.js";
export * from "./managers/templates.js";
export * from "./managers/terminal.js";
export * from "./managers/volumes.js";
export type { CallOptions } from "./options.js";
export { Sandbox } from "./sandbox.js";
export type { Upgraded } from "./upgrade.js";
export { SocketConnection, type SocketMessage } from "./websocket.js";
