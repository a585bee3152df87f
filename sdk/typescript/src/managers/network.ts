import type { EventStream } from "../events.js";
import type {
  Network,
  NetworkConnected,
  NetworkDeleted,
  NetworkDenial,
  NetworkDisconnected,
  NetworkList,
  NetworkLog,
  NetworkPolicy,
  NetworkVerdict,
  SandboxNetwork,
} from "../generated.js";
import { type CallOptions, split } from "../options.js";
import { OfDaemon, OfSandbox } from "./base.js";

/** Networks that sandboxes are connected to. */
export class NetworkManager extends OfDaemon {
  create(name: string, driver?: string, options: CallOptions = {}): Promise<Network> {
    return this.client.call("network_create", { name, driver }, options);
  }

  list(options: CallOptions = {}): Promise<NetworkList> {
    return this.client.call("network_list", {}, options);
  }

  get(networkId: string, options: CallOptions = {}): Promise<Network> {
    return this.client.call("network_get", { networkId }, options);
  }

  connect(networkId: string, sandboxId: string, options: CallOptions = {}): Promise<NetworkConnected> {
    return this.client.call("network_connect", { networkId, sandboxId }, options);
  }

  disconnect(networkId: string, sandboxId: string, options: CallOptions = {}): Promise<NetworkDisconnected> {
    return this.client.call("network_disconnect", { networkId, sandboxId }, options);
  }

  /** Disconnects all that are in it first. */
  delete(networkId: string, options: CallOptions = {}): Promise<NetworkDeleted> {
    return this.client.call("network_delete", { networkId }, options);
  }
}

/** What one sandbox may reach. */
export class SandboxNetworkManager extends OfSandbox {
  get(options: CallOptions = {}): Promise<SandboxNetwork> {
    return this.client.call("sandbox_network", { sandboxId: this.sandboxId }, options);
  }

  /** false = nothing, true = the public internet, or a preset's name, or a policy. In force at once. */
  set(network: boolean | string | NetworkPolicy, options: CallOptions = {}): Promise<SandboxNetwork> {
    const input = {
      sandboxId: this.sandboxId,
      network: network as boolean | string | Record<string, unknown>,
    };
    return this.client.call("sandbox_network_set", input, options);
  }

  /** May it reach that, and which rule says so? */
  explain(
    host: string,
    options: CallOptions & { port?: number; protocol?: "tcp" | "udp" | "icmp" } = {},
  ): Promise<NetworkVerdict> {
    const [fields, call] = split(options);
    return this.client.call("sandbox_network_explain", { ...fields, sandboxId: this.sandboxId, host }, call);
  }

  /** What was refused. */
  log(options: CallOptions & { after?: number; limit?: number } = {}): Promise<NetworkLog> {
    const [fields, call] = split(options);
    return this.client.call("sandbox_network_log", { ...fields, sandboxId: this.sandboxId }, call);
  }

  /** What is refused, as it happens. */
  stream(options: CallOptions & { tail?: number } = {}): EventStream<NetworkDenial> {
    const [fields, call] = split(options);
    return this.client.events("stream_network", { ...fields, sandboxId: this.sandboxId }, call);
  }
}
