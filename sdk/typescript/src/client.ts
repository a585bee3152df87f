import { Agent, type AgentOptions, type IncomingMessage } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { chosenAddress, chosenToken, findAddress, localAddress, type Target } from "./address.js";
import { badAnswer, CayError, ConnectionError, InvalidRequestError, refusalOf } from "./errors.js";
import { EventStream, readEvents } from "./events.js";
import { type Body, Exchange, type Message } from "./exchange.js";
import { apiVersion, type OperationRow, type Operations, operations } from "./generated.js";
import { type CallOptions, Patience, sleep } from "./options.js";
import { mayWait, SAFE } from "./safety.js";
import { type Upgraded, upgrade } from "./upgrade.js";

/** How a client finds its daemon and how patient it is. */
export interface ClientConfig {
  /**
   * `unix:/path`, `http://host:port` or `https://host`. Else `CAY_HOST`, `CAY_URL` or `III_SANDBOX_URL`; else the
   * socket of this machine's daemon; else port 3111 on this machine.
   */
  baseUrl?: string | undefined;
  /** Else `CAY_TOKEN`, `CAY_AUTH_TOKEN`, `III_SANDBOX_TOKEN` or `III_AUTH_TOKEN`. */
  token?: string | undefined;
  /** How long to wait for an answer: 60000. What runs as long as it needs (commands, pulls, transfers) is not meant. */
  timeoutMs?: number | undefined;
  /** How long a daemon that went away is waited for, where asking again is safe: 10000; 0 = not at all. */
  retryMs?: number | undefined;
}

const TIMEOUT_MS = 60_000;
const RETRY_MS = 10_000;
/** Less than the daemon's own, so that we do not write to what it is about to close. */
const IDLE_MS = 60_000;
const TRIES_MAX = 50;
/** With these, and a time to come again, the daemon only has too much to do. */
const SOON: ReadonlySet<string> = new Set([
  "busy",
  "gateway_down",
  "idempotency_in_progress",
  "launcher_lost",
  "sandbox_busy",
  "unavailable",
]);

export type OperationId = keyof Operations;
export type InputOf<K extends OperationId> = Operations[K]["input"];
export type OutputOf<K extends OperationId> = Operations[K]["output"];
export type EventOf<K extends OperationId> = Operations[K]["event"];

/** A request, and what may be done when it fails. */
interface Request extends Message {
  /** It can be sent again although it may have had its effect. */
  safe: boolean;
  /** Its answer has its own time. */
  patient: boolean;
}

const pathParts = new Map<string, string[]>();

/** The parts of a path, of which every second is the name of a field. */
function partsOf(path: string): string[] {
  let parts = pathParts.get(path);
  if (!parts) {
    parts = path.split(/[{}]/);
    pathParts.set(path, parts);
  }
  return parts;
}

function queryOf(fields: Record<string, unknown>): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && value !== null)
      words.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  const text = words.toString();
  return text && `?${text}`;
}

/** The path that an operation has with these fields, and the fields that are left. */
function locate(row: OperationRow, input: Record<string, unknown>): [string, Record<string, unknown>] {
  const parts = partsOf(row.path);
  const left = { ...input };
  let path = "";
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as string;
    if (i % 2 === 0) {
      path += part;
      continue;
    }
    const value = String(left[part] ?? "");
    // Clients and proxies resolve these in paths, so they would mean another operation.
    if (value === "" || value === "." || value === "..")
      throw new InvalidRequestError(
        "invalid",
        `"${value}" cannot be the ${part} of ${row.method} ${row.path}`,
        {
          method: row.method,
          path: row.path,
          status: 400,
        },
      );
    path += encodeURIComponent(value);
    delete left[part];
  }
  return [path, left];
}

/** The connection to a daemon. All methods of all other classes go through one of these. */
export class HttpClient {
  readonly #chosen: Target | undefined;
  #target: Target | undefined;
  #finding: Promise<Target> | undefined;
  #agent: Agent | undefined;
  readonly #token: string | undefined;
  readonly #timeoutMs: number;
  readonly #retryMs: number;
  /** A daemon that has answered once is waited for when it is away; one that never did is not there. */
  #answered = false;

  constructor(config: ClientConfig = {}) {
    this.#chosen = chosenAddress(config.baseUrl);
    this.#token = chosenToken(config.token);
    this.#timeoutMs = config.timeoutMs ?? TIMEOUT_MS;
    this.#retryMs = config.retryMs ?? RETRY_MS;
  }

  /** Where the daemon is, for URLs; of one that is used by its socket, where it listens by default. */
  getBaseUrl(): string {
    const target = this.#target ?? this.#chosen;
    return target && !target.socketPath ? target.url : localAddress().url;
  }

  /** GET of a path below `/sandbox`, for what has no method of its own. */
  get<T = unknown>(path: string, query: Record<string, unknown> = {}, options: CallOptions = {}): Promise<T> {
    return this.#json<T>(this.#loose("GET", path + queryOf(query)), options);
  }

  /** POST to a path below `/sandbox`. */
  post<T = unknown>(path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    return this.#json<T>(this.#loose("POST", path, body), options);
  }

  /** DELETE of a path below `/sandbox`. */
  del<T = unknown>(path: string, query: Record<string, unknown> = {}, options: CallOptions = {}): Promise<T> {
    return this.#json<T>(this.#loose("DELETE", path + queryOf(query)), options);
  }

  /** POST to a path below `/sandbox` that answers with events. */
  stream<T = unknown>(path: string, body?: unknown, options: CallOptions = {}): EventStream<T> {
    return this.#events<T>(this.#loose("POST", path, body), options);
  }

  /** GET of a path below `/sandbox` that answers with events. */
  streamGet<T = unknown>(
    path: string,
    query: Record<string, unknown> = {},
    options: CallOptions = {},
  ): EventStream<T> {
    return this.#events<T>(this.#loose("GET", path + queryOf(query)), options);
  }

  /** Any operation of the daemon by its id, with one flat object of all its fields. */
  call<K extends OperationId>(op: K, input: InputOf<K>, options: CallOptions = {}): Promise<OutputOf<K>> {
    return this.#json(this.#request(op, input, options), options);
  }

  /** An operation that can answer with events, as these. */
  events<K extends OperationId>(
    op: K,
    input: InputOf<K>,
    options: CallOptions = {},
  ): EventStream<EventOf<K>> {
    return this.#events(this.#request(op, input, options), options);
  }

  /** An operation that answers with bytes, as these; who stops reading ends it. */
  async bytes<K extends OperationId>(
    op: K,
    input: InputOf<K>,
    options: CallOptions = {},
  ): Promise<ByteAnswer> {
    const request = this.#request(op, input, options);
    request.headers.accept = "application/octet-stream, */*;q=0.5";
    return this.#perform(request, options, async (exchange, answer) => {
      const length = answer.headers["content-length"];
      return { length: length === undefined ? undefined : Number(length), pieces: exchange.pieces() };
    });
  }

  /** An operation whose body is bytes, with its other fields in the query. */
  send<K extends OperationId>(
    op: K,
    input: InputOf<K>,
    body: Body,
    options: CallOptions = {},
  ): Promise<OutputOf<K>> {
    const row = operations[op];
    const [path, left] = locate(row, input as Record<string, unknown>);
    const headers: Message["headers"] = { ...this.#headers(), "content-type": "application/octet-stream" };
    const whole = typeof body === "string" || body instanceof Uint8Array;
    if (whole) headers["content-length"] = Buffer.byteLength(body);
    return this.#json(
      {
        method: row.method,
        path: path + queryOf(left),
        headers,
        body,
        safe: whole && SAFE.has(op), // a stream can be read only once
        patient: true,
      },
      options,
    );
  }

  /** An operation whose answer is a connection: of that protocol, after a head with more fields. */
  async upgrade<K extends OperationId>(
    op: K,
    input: InputOf<K>,
    protocol: string,
    options: CallOptions & { headers?: Record<string, string> } = {},
  ): Promise<Upgraded> {
    const { headers, ...call } = options;
    const request = this.#request(op, input, call);
    Object.assign(request.headers, headers);
    const target = await this.#where();
    const path = target.base + request.path;
    const made = await upgrade(target, { ...request, path }, protocol, options.signal);
    this.#answered = true;
    return made;
  }

  /** For those who come back to something when the connection to it broke. */
  patience(signal?: AbortSignal): Patience {
    return new Patience(this.#retryMs, signal);
  }

  /** Drops connections that wait to be used again. A program ends without it. */
  close(): void {
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  #headers(): Message["headers"] {
    const headers: Message["headers"] = {
      "user-agent": `cay-typescript/${apiVersion}`,
      "cay-client": `cay-typescript/${apiVersion}`,
    };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    return headers;
  }

  #loose(method: string, path: string, body?: unknown): Request {
    const request: Request = {
      method,
      path: path.startsWith("/sandbox/") ? path : `/sandbox${path}`,
      headers: this.#headers(),
      safe: method === "GET",
      patient: false,
    };
    if (body !== undefined) setJson(request, body);
    return request;
  }

  #request<K extends OperationId>(op: K, input: InputOf<K>, options: CallOptions): Request {
    const row: OperationRow = operations[op];
    const [path, left] = locate(row, input as Record<string, unknown>);
    const request: Request = {
      method: row.method,
      path,
      headers: this.#headers(),
      safe: row.method === "GET" || row.keyed === true || SAFE.has(op),
      patient: mayWait(op, row),
    };
    if (row.method === "GET" || row.method === "DELETE") request.path += queryOf(left);
    else if (Object.keys(left).length > 0) setJson(request, left);
    if (row.keyed) request.headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
    return request;
  }

  async #where(): Promise<Target> {
    if (!this.#target) {
      this.#finding ??= this.#chosen ? Promise.resolve(this.#chosen) : findAddress();
      this.#target = await this.#finding;
    }
    return this.#target;
  }

  #agentFor(target: Target): Agent {
    if (!this.#agent) {
      // Deno keeps connections that a destroyed request was on, so there each request has its own.
      const keepAlive = !("Deno" in globalThis);
      const how: AgentOptions = { keepAlive, timeout: IDLE_MS, scheduling: "lifo" };
      this.#agent = target.tls ? new SecureAgent(how) : new Agent(how);
    }
    return this.#agent;
  }

  /** One try: the answer is good when `use` gets it. */
  async #attempt<T>(
    request: Request,
    signal: AbortSignal | undefined,
    timeoutMs: number,
    use: (exchange: Exchange, answer: IncomingMessage) => Promise<T>,
  ): Promise<T> {
    const target = this.#target ?? (await this.#where());
    const sent = target.base ? { ...request, path: target.base + request.path } : request;
    const exchange = new Exchange(target, sent, signal);
    const to = target.socketPath
      ? { socketPath: target.socketPath }
      : { host: target.host, port: target.port };
    const answer = await exchange.start({ ...to, agent: this.#agentFor(target) }, timeoutMs);
    this.#answered = true;
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return use(exchange, answer);
    throw refusalOf(request, status, answer.headers, await exchange.text());
  }

  async #perform<T>(
    request: Request,
    options: CallOptions,
    use: (exchange: Exchange, answer: IncomingMessage) => Promise<T>,
  ): Promise<T> {
    const timeoutMs = options.timeoutMs ?? (request.patient ? 0 : this.#timeoutMs);
    const began = Date.now();
    const replayable =
      !request.body || typeof request.body === "string" || request.body instanceof Uint8Array;
    for (let n = 0; ; n++) {
      try {
        const left = timeoutMs > 0 ? Math.max(1, timeoutMs - (Date.now() - began)) : 0;
        return await this.#attempt(request, options.signal, left, use);
      } catch (error) {
        const wait = replayable ? this.#waitFor(error, n, Date.now() - began, request.safe) : undefined;
        if (wait === undefined) throw error;
        await sleep(wait, options.signal);
      }
    }
  }

  /** How long to wait before a request may be sent again; undefined = it may not. */
  #waitFor(error: unknown, n: number, elapsed: number, safe: boolean): number | undefined {
    if (!(error instanceof CayError) || n >= TRIES_MAX) return undefined;
    let wait: number;
    if (error instanceof ConnectionError) {
      if (error.unsent ? !this.#answered : !safe) return undefined;
      wait = Math.min(20 * 2 ** n, 500);
    } else {
      // Refused before anything was done; or it says when to come, and coming again is safe.
      if (error.retryAfter === undefined) return undefined;
      if (error.code !== "rate_limited" && !(safe && SOON.has(error.code))) return undefined;
      wait = error.retryAfter * 1000;
    }
    return elapsed + wait <= this.#retryMs ? wait : undefined;
  }

  #json<T>(request: Request, options: CallOptions): Promise<T> {
    return this.#perform(request, options, async (exchange, answer) => {
      const text = await exchange.text();
      if (!answer.headers["content-type"]?.includes("json")) return text as T;
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw badAnswer("it is no JSON", request, cause);
      }
    });
  }

  #events<T>(request: Request, options: CallOptions): EventStream<T> {
    request.headers.accept = "text/event-stream";
    const call = { ...options, timeoutMs: options.timeoutMs ?? 0 };
    return new EventStream<T>(async (signal) => {
      return this.#perform(request, { ...call, signal }, async (exchange) =>
        readEvents<T>(exchange, request),
      );
    }, options.signal);
  }
}

/** Bytes that come, and how many there will be if that is known. */
export interface ByteAnswer {
  length: number | undefined;
  pieces: AsyncGenerator<Uint8Array, void>;
}

function setJson(request: Request, body: unknown): void {
  const text = JSON.stringify(body);
  request.body = text;
  request.headers["content-type"] = "application/json";
  request.headers["content-length"] = Buffer.byteLength(text);
}
