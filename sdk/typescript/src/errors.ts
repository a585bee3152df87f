import type { ErrorBody, ErrorCode, VolumeHolder } from "./generated.js";

/** What an error is about. */
export interface ErrorContext {
  method: string;
  path: string;
  status?: number;
  body?: Partial<ErrorBody> & Record<string, unknown>;
  retryAfter?: number | undefined;
  execId?: string | undefined;
  cause?: unknown;
}

/**
 * Everything that goes wrong between a caller and the daemon. `code` is the daemon's stable word for it; those of the
 * client itself are `connection_failed`, `connection_lost`, `client_timeout` and `bad_answer`. A call that its
 * AbortSignal ended rejects with the signal's reason instead, as everywhere in JavaScript.
 */
export class CayError extends Error {
  override readonly name: string = "CayError";
  /** The stable word, as `sandbox_not_found`. */
  readonly code: ErrorCode;
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number;
  readonly method: string;
  readonly path: string;
  /** Seconds that the daemon asks to wait before the next try. */
  readonly retryAfter: number | undefined;
  /** The command that this is about. */
  readonly execId: string | undefined;
  /** All that the daemon said. */
  readonly body: Partial<ErrorBody> & Record<string, unknown>;

  constructor(code: ErrorCode, message: string, context: ErrorContext) {
    super(message, context.cause === undefined ? undefined : { cause: context.cause });
    this.code = code;
    this.status = context.status ?? 0;
    this.method = context.method;
    this.path = context.path;
    this.retryAfter = context.retryAfter;
    this.body = context.body ?? {};
    this.execId = this.body.execId ?? context.execId;
  }
}

/** The request makes no sense to the daemon (400, 413), or to this client. */
export class InvalidRequestError extends CayError {
  override readonly name: string = "InvalidRequestError";
}

/** No token, or one that is not good for this (401, 403). */
export class PermissionError extends CayError {
  override readonly name: string = "PermissionError";
}

/** What was asked for is not there (404). */
export class NotFoundError extends CayError {
  override readonly name: string = "NotFoundError";
}

/** There is no such sandbox, or not any more. */
export class SandboxNotFoundError extends NotFoundError {
  override readonly name: string = "SandboxNotFoundError";
}

/** There is no such file or folder. */
export class FileNotFoundError extends NotFoundError {
  override readonly name: string = "FileNotFoundError";
}

/** It cannot be done in the state that things are in (409). */
export class ConflictError extends CayError {
  override readonly name: string = "ConflictError";
  /** Of `volume_busy`: who uses it. */
  get processes(): VolumeHolder[] {
    return this.body.processes ?? [];
  }
}

/** The sandbox is paused or stopped. */
export class SandboxNotRunningError extends ConflictError {
  override readonly name: string = "SandboxNotRunningError";
}

/** A limit is reached, or requests come too fast (429). */
export class LimitError extends CayError {
  override readonly name: string = "LimitError";
}

/** A command did not end in its time; what it had put out until then is here. */
export class CommandTimeoutError extends CayError {
  override readonly name: string = "CommandTimeoutError";
  get stdout(): string {
    return this.body.stdout ?? "";
  }
  get stderr(): string {
    return this.body.stderr ?? "";
  }
  get truncated(): boolean {
    return this.body.truncated ?? false;
  }
}

/** The program cannot be started: it is not there, or cannot be run. */
export class CommandNotFoundError extends InvalidRequestError {
  override readonly name: string = "CommandNotFoundError";
}

/** Something broke in the daemon or around it, or it has too much to do (5xx). */
export class ServerError extends CayError {
  override readonly name: string = "ServerError";
}

/** The daemon cannot be reached, or the connection to it broke. */
export class ConnectionError extends CayError {
  override readonly name: string = "ConnectionError";
  /** Nothing of the request was sent: it has certainly had no effect. */
  readonly unsent: boolean;

  constructor(code: ErrorCode, message: string, context: ErrorContext, unsent: boolean) {
    super(code, message, context);
    this.unsent = unsent;
  }
}

/** The daemon did not answer in the time that the caller gave it (`timeoutMs`). */
export class ClientTimeoutError extends CayError {
  override readonly name: string = "ClientTimeoutError";
}

type ErrorClass = new (code: ErrorCode, message: string, context: ErrorContext) => CayError;

const byCode: Record<string, ErrorClass> = {
  sandbox_not_found: SandboxNotFoundError,
  sandbox_expired: SandboxNotFoundError,
  sandbox_removed: SandboxNotFoundError,
  sandbox_not_running: SandboxNotRunningError,
  file_not_found: FileNotFoundError,
  command_timeout: CommandTimeoutError,
  command_not_found: CommandNotFoundError,
  not_executable: CommandNotFoundError,
};

const byStatus: Record<number, ErrorClass> = {
  400: InvalidRequestError,
  401: PermissionError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  413: InvalidRequestError,
  429: LimitError,
};

const TOKEN_HINTED = new Set<ErrorCode>(["unauthorized", "invalid_token"]);

/** The error for what the daemon said, whether with a status or as an event of a stream. */
export function errorOf(context: ErrorContext): CayError {
  const status = context.status ?? 0;
  const code: ErrorCode = context.body?.code ?? `http_${status}`;
  const hint = TOKEN_HINTED.has(code) ? ": give the daemon's token, as `token` or in CAY_TOKEN" : "";
  const text = (context.body?.error ?? `the daemon answered ${status}`) + hint;
  const made = byCode[code] ?? byStatus[status] ?? (status >= 500 ? ServerError : CayError);
  return new made(code, `${text} (${context.method} ${context.path}: ${status} ${code})`, context);
}

/** Answers that no daemon of ours gives. */
export function badAnswer(
  what: string,
  request: { method: string; path: string },
  cause?: unknown,
): CayError {
  const { method, path } = request;
  return new CayError("bad_answer", `the daemon's answer cannot be used: ${what} (${method} ${path})`, {
    method,
    path,
    cause,
  });
}

/** The error for an answer that is none of success. */
export function refusalOf(
  request: { method: string; path: string },
  status: number,
  headers: Record<string, string | string[] | undefined>,
  text: string,
): CayError {
  let body: ErrorContext["body"];
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read === "object" && read !== null) body = read as ErrorContext["body"];
  } catch {
    if (text) body = { error: text.slice(0, 1000) };
  }
  const wait = headers["retry-after"];
  const execId = headers["x-exec-id"];
  return errorOf({
    method: request.method,
    path: request.path,
    status,
    body: body ?? {},
    retryAfter: wait !== undefined && Number.isFinite(Number(wait)) ? Number(wait) : undefined,
    execId: typeof execId === "string" ? execId : undefined,
  });
}
