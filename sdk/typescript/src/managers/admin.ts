import type {
  AuditList,
  AuditListInput,
  AuditReport,
  Delivery,
  DeliveryList,
  Info,
  PoolAddInput,
  PoolProfile,
  PoolProfiles,
  PoolStatus,
  SandboxInfo,
  Strays,
  Success,
  Sweep,
  Token,
  TokenCreateInput,
  TokenList,
  Webhook,
  WebhookCreateInput,
  WebhookDeleted,
  WebhookList,
  WebhookMade,
  WorkerList,
  WorkerSelected,
  WorkersMigrated,
  WorkersReaped,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** Tokens: who may do what. */
export class TokenManager extends OfDaemon {
  /** Its `token` is shown this once. */
  create(token: TokenCreateInput, options: CallOptions = {}): Promise<Token> {
    return this.client.call("token_create", token, options);
  }

  list(options: CallOptions = {}): Promise<TokenList> {
    return this.client.call("token_list", {}, options);
  }

  revoke(tokenId: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("token_revoke", { tokenId }, options);
  }
}

/** Webhooks: who is told of events by HTTP. */
export class WebhookManager extends OfDaemon {
  /** Its `secret` is shown this once. */
  create(url: string, options: With<Omit<WebhookCreateInput, "url">> = {}): Promise<WebhookMade> {
    const [fields, call] = split(options);
    return this.client.call("webhook_create", { ...fields, url }, call);
  }

  list(options: CallOptions = {}): Promise<WebhookList> {
    return this.client.call("webhook_list", {}, options);
  }

  get(webhookId: string, options: CallOptions = {}): Promise<Webhook> {
    return this.client.call("webhook_get", { webhookId }, options);
  }

  /** Switches it on or off. */
  update(webhookId: string, active: boolean, options: CallOptions = {}): Promise<Webhook> {
    return this.client.call("webhook_update", { webhookId, active }, options);
  }

  delete(webhookId: string, options: CallOptions = {}): Promise<WebhookDeleted> {
    return this.client.call("webhook_delete", { webhookId }, options);
  }

  /** Sends it one now, and says how that went. */
  test(webhookId: string, options: CallOptions = {}): Promise<Delivery> {
    return this.client.call("webhook_test", { webhookId }, options);
  }

  deliveries(webhookId: string, limit?: number, options: CallOptions = {}): Promise<DeliveryList> {
    return this.client.call("webhook_deliveries", { webhookId, limit }, options);
  }
}

/** Sandboxes that wait to be taken. */
export class PoolManager extends OfDaemon {
  status(options: CallOptions = {}): Promise<PoolStatus> {
    return this.client.call("pool_status", {}, options);
  }

  profiles(options: CallOptions = {}): Promise<PoolProfiles> {
    return this.client.call("pool_profiles", {}, options);
  }

  add(profile: PoolAddInput, options: CallOptions = {}): Promise<PoolProfile> {
    return this.client.call("pool_add", profile, options);
  }

  remove(profileId: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("pool_remove", { profileId }, options);
  }
}

/** The record of who did what. */
export class AuditManager extends OfDaemon {
  list(options: With<AuditListInput> = {}): Promise<AuditList> {
    const [fields, call] = split(options);
    return this.client.call("audit_list", fields, call);
  }

  /** Is it whole? With `head` also: is that entry still in it? */
  verify(options: CallOptions & { head?: string } = {}): Promise<AuditReport> {
    const [fields, call] = split(options);
    return this.client.call("audit_verify", fields, call);
  }
}

/** The daemon itself. */
export class AdminManager extends OfDaemon {
  /** Its version, limits and defaults. */
  info(options: CallOptions = {}): Promise<Info> {
    return this.client.call("system_info", {}, options);
  }

  /** Its description of itself, which these types are made from. */
  openapi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.client.call("system_openapi", {}, options);
  }

  /** Removes what has expired now. */
  sweep(options: CallOptions = {}): Promise<Sweep> {
    return this.client.call("lifecycle_sweep", {}, options);
  }

  /** Disks that belong to no sandbox. */
  strays(options: CallOptions = {}): Promise<Strays> {
    return this.client.call("system_strays", {}, options);
  }

  /** Makes a stopped sandbox of one. */
  adoptStray(strayId: string, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.client.call("system_stray_adopt", { strayId }, options);
  }

  removeStray(strayId: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("system_stray_remove", { strayId }, options);
  }

  /** Of the contract: the machines that run sandboxes, which is this one. */
  workers(options: CallOptions = {}): Promise<WorkerList> {
    return this.client.call("worker_list", {}, options);
  }

  selectWorker(options: CallOptions = {}): Promise<WorkerSelected> {
    return this.client.call("worker_select", {}, options);
  }

  reapWorkers(options: CallOptions = {}): Promise<WorkersReaped> {
    return this.client.call("worker_reap", {}, options);
  }

  migrateWorkers(options: CallOptions = {}): Promise<WorkersMigrated> {
    return this.client.call("worker_migrate", {}, options);
  }
}
