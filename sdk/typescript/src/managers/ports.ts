import type { Socket } from "node:net";
import type {
  Port,
  PortExposeInput,
  PortList,
  PortRemoved,
  ProxyAnswer,
  ProxyConfig,
  ProxyConfigInput,
  ProxyRequestInput,
  ProxySigned,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfSandbox } from "./base.js";

/** Ports of a sandbox, and ways to what listens there. */
export class PortManager extends OfSandbox {
  /** A port of the host leads to one of the sandbox; hostPort 0 = a free one. */
  expose(
    containerPort: number,
    hostPort?: number,
    protocol?: PortExposeInput["protocol"],
    options: CallOptions & { hostAddress?: string } = {},
  ): Promise<Port> {
    const [fields, call] = split(options);
    const input = { ...fields, sandboxId: this.sandboxId, containerPort, hostPort, protocol };
    return this.client.call("port_expose", input, call);
  }

  list(options: CallOptions = {}): Promise<PortList> {
    return this.client.call("port_list", { sandboxId: this.sandboxId }, options);
  }

  unexpose(
    containerPort: number,
    options: CallOptions & { protocol?: "tcp" | "udp" } = {},
  ): Promise<PortRemoved> {
    const [fields, call] = split(options);
    return this.client.call("port_unexpose", { ...fields, sandboxId: this.sandboxId, containerPort }, call);
  }

  /** Where `request()` sends to. */
  getProxyUrl(containerPort: number): string {
    return `${this.client.getBaseUrl()}/sandbox/proxy/${encodeURIComponent(this.sandboxId)}/${containerPort}`;
  }

  /** One HTTP request to a port of the sandbox, through the daemon. */
  request(
    containerPort: number,
    options: With<Omit<ProxyRequestInput, "sandboxId" | "port">> = {},
  ): Promise<ProxyAnswer> {
    const [fields, call] = split(options);
    const input = { ...fields, sandboxId: this.sandboxId, port: String(containerPort) };
    return this.client.call("proxy_request", input, call);
  }

  /** What holds for web pages of the sandbox's ports; without fields it is read. */
  configure(options: With<Omit<ProxyConfigInput, "sandboxId">> = {}): Promise<ProxyConfig> {
    const [fields, call] = split(options);
    return this.client.call("proxy_config", { ...fields, sandboxId: this.sandboxId }, call);
  }

  /** A URL of a port that is good for everybody who has it, for a time. */
  sign(
    port: number,
    options: CallOptions & { expiresIn?: number; path?: string } = {},
  ): Promise<ProxySigned> {
    const [fields, call] = split(options);
    return this.client.call("proxy_sign", { ...fields, sandboxId: this.sandboxId, port }, call);
  }

  /** A connection to a TCP port of the sandbox, which need not be exposed; bytes both ways. */
  async dial(port: number, options: CallOptions = {}): Promise<Socket> {
    const input = { sandboxId: this.sandboxId, port: String(port) };
    const { socket, early } = await this.client.upgrade("port_dial", input, "cay-dial", options);
    if (early.length > 0) socket.unshift(Buffer.from(early));
    const { signal } = options;
    if (signal) {
      const abort = () => socket.destroy(signal.reason instanceof Error ? signal.reason : undefined);
      signal.addEventListener("abort", abort, { once: true });
      socket.once("close", () => signal.removeEventListener("abort", abort));
    }
    return socket;
  }
}
