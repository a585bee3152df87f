import { chosenAddress, chosenToken, defaultImage } from "./address.js";
import { type ClientConfig, HttpClient } from "./client.js";
import type { EventStream } from "./events.js";
import type {
  CreateEvent,
  SandboxCreateInput,
  SandboxInfo,
  SandboxListInput,
  TemplateList,
} from "./generated.js";
import { AdminManager, AuditManager, PoolManager, TokenManager, WebhookManager } from "./managers/admin.js";
import { EventManager } from "./managers/events.js";
import { ImageManager } from "./managers/images.js";
import { NetworkManager } from "./managers/network.js";
import { ObservabilityClient } from "./managers/observability.js";
import { JobManager } from "./managers/queue.js";
import { SnapshotManager } from "./managers/snapshots.js";
import { TemplateManager } from "./managers/templates.js";
import { VolumeManager } from "./managers/volumes.js";
import { type CallOptions, split } from "./options.js";
import { Sandbox } from "./sandbox.js";

/** What a new sandbox is like. */
export type CreateOptions = SandboxCreateInput & CallOptions;

/** Which sandboxes to list. */
export type ListOptions = Omit<SandboxListInput, "page" | "pageSize" | "cursor"> & CallOptions;

const PAGE = 200;

/** A daemon, and all that it has. Methods that make or find a sandbox give a Sandbox. */
export class Cay {
  /** What all of it goes through. */
  readonly client: HttpClient;
  readonly admin: AdminManager;
  readonly audit: AuditManager;
  readonly events: EventManager;
  readonly images: ImageManager;
  readonly jobs: JobManager;
  readonly networks: NetworkManager;
  readonly observability: ObservabilityClient;
  readonly pool: PoolManager;
  readonly snapshots: SnapshotManager;
  readonly templates: TemplateManager;
  readonly tokens: TokenManager;
  readonly volumes: VolumeManager;
  readonly webhooks: WebhookManager;

  constructor(config: ClientConfig | HttpClient = {}) {
    const client = config instanceof HttpClient ? config : new HttpClient(config);
    this.client = client;
    this.admin = new AdminManager(client);
    this.audit = new AuditManager(client);
    this.events = new EventManager(client);
    this.images = new ImageManager(client);
    this.jobs = new JobManager(client);
    this.networks = new NetworkManager(client);
    this.observability = new ObservabilityClient(client);
    this.pool = new PoolManager(client);
    this.snapshots = new SnapshotManager(client);
    this.templates = new TemplateManager(client);
    this.tokens = new TokenManager(client);
    this.volumes = new VolumeManager(client);
    this.webhooks = new WebhookManager(client);
  }

  /** Makes a sandbox. Without an image and a template it has `CAY_IMAGE`, else `host`: the programs of this machine. */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    const [fields, call] = split(options);
    return new Sandbox(this.client, await this.client.call("sandbox_create", withImage(fields), call));
  }

  /** A create that tells how its image comes; the last event has the sandbox, which `get()` makes one to work with. */
  createStream(options: CreateOptions = {}): EventStream<CreateEvent> {
    const [fields, call] = split(options);
    return this.client.events("sandbox_create", withImage(fields), call);
  }

  /** The sandbox with that id, or with that name if only one has it. */
  async get(sandbox: string, options: CallOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.client, await this.client.call("sandbox_get", { sandboxId: sandbox }, options));
  }

  /** All sandboxes, the newest first, as they come page by page. */
  async *sandboxes(options: ListOptions = {}): AsyncGenerator<SandboxInfo, void> {
    const [fields, call] = split(options);
    let cursor: number | undefined;
    do {
      const page = await this.client.call("sandbox_list", { ...fields, cursor, pageSize: PAGE }, call);
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** All sandboxes, the newest first. */
  async list(options: ListOptions = {}): Promise<SandboxInfo[]> {
    const all: SandboxInfo[] = [];
    for await (const info of this.sandboxes(options)) all.push(info);
    return all;
  }
}

function withImage(fields: SandboxCreateInput): SandboxCreateInput {
  return fields.image === undefined && fields.template === undefined
    ? { ...fields, image: defaultImage() }
    : fields;
}

// One client for each daemon, so that programs which only use the functions below reuse connections.
const clients = new Map<string, HttpClient>();
const CLIENTS_MAX = 64;

function clientFor({ baseUrl, token, timeoutMs, retryMs }: ClientConfig): HttpClient {
  const key = JSON.stringify([chosenAddress(baseUrl)?.url, chosenToken(token), timeoutMs, retryMs]);
  let client = clients.get(key);
  if (!client) {
    client = new HttpClient({ baseUrl, token, timeoutMs, retryMs });
    if (clients.size >= CLIENTS_MAX) clients.clear();
    clients.set(key, client);
  }
  return client;
}

function withoutConfig<T extends ClientConfig>(options: T): Omit<T, "baseUrl" | "token" | "retryMs"> {
  const { baseUrl: _, token: __, retryMs: ___, ...rest } = options;
  return rest;
}

/** Makes a sandbox on the daemon that `baseUrl` or the environment says. */
export function createSandbox(options: CreateOptions & ClientConfig = {}): Promise<Sandbox> {
  return new Cay(clientFor(options)).create(withoutConfig(options));
}

/** All sandboxes, the newest first. */
export function listSandboxes(options: ListOptions & ClientConfig = {}): Promise<SandboxInfo[]> {
  return new Cay(clientFor(options)).list(withoutConfig(options));
}

/** The sandbox with that id, or with that name if only one has it. */
export function getSandbox(sandbox: string, options: CallOptions & ClientConfig = {}): Promise<Sandbox> {
  return new Cay(clientFor(options)).get(sandbox, withoutConfig(options));
}

/** The templates that sandboxes can be made from. */
export function listTemplates(options: CallOptions & ClientConfig = {}): Promise<TemplateList> {
  return clientFor(options).call("template_list", {}, withoutConfig(options));
}
