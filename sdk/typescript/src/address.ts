import { connect } from "node:net";

/** Where a daemon is: a unix socket, or a host and port. */
export interface Target {
  socketPath?: string;
  host?: string;
  port?: number;
  tls: boolean;
  /** In front of every path: that of a proxy before the daemon. */
  base: string;
  /** For people, and for URLs. */
  url: string;
}

function env(...names: string[]): string | undefined {
  for (const name of names) {
    try {
      const value = process.env[name];
      if (value) return value;
    } catch {
      // Deno without --allow-env: as if nothing were set.
    }
  }
  return undefined;
}

const runFolder = () => env("CAY_RUN") ?? "/run/cay";
const restPort = () => env("CAY_REST_PORT", "III_REST_PORT") ?? "3111";

function socketTarget(socketPath: string): Target {
  return { socketPath, tls: false, base: "", url: `unix:${socketPath}` };
}

/** `unix:/path`, `/path`, `http://host:port`, `https://host`, `host:port` or `host`. */
export function parseAddress(address: string): Target {
  if (address.startsWith("unix:")) return socketTarget(address.slice(5).replace(/^\/\//, ""));
  if (address.startsWith("/")) return socketTarget(address);
  const named = /^https?:\/\//i.test(address);
  let url: URL;
  try {
    if (!named && address.includes("://")) throw new TypeError("another scheme");
    url = new URL(named ? address : `http://${address}`);
  } catch {
    throw new TypeError(`"${address}" is no address of a daemon: use unix:/path or http://host:port`);
  }
  const tls = url.protocol === "https:";
  const told = /:\d+\/*$/.test(address); // URL leaves out a port that is its scheme's
  const port = Number(url.port) || (tls ? 443 : named || told ? 80 : 3111);
  const base = url.pathname.replace(/\/+$/, "");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return { host, port, tls, base, url: `${url.protocol}//${url.hostname}:${port}${base}` };
}

/** The address that was chosen by argument or environment; undefined = look for one. */
export function chosenAddress(baseUrl?: string): Target | undefined {
  const address = baseUrl || env("CAY_HOST", "CAY_URL", "III_SANDBOX_URL");
  return address === undefined ? undefined : parseAddress(address);
}

/** Where the daemon of this machine is for those who cannot use its socket. */
export function localAddress(): Target {
  return parseAddress(`http://127.0.0.1:${restPort()}`);
}

/** The socket of this machine's daemon if somebody listens there and we may connect, else its port. */
export async function findAddress(): Promise<Target> {
  const path = `${runFolder()}/cay.sock`;
  const listens = await new Promise<boolean>((resolve) => {
    const socket = connect({ path });
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
  return listens || restPort() === "0" ? socketTarget(path) : localAddress();
}

/** The token that was given or is in the environment. */
export function chosenToken(token?: string): string | undefined {
  return token || env("CAY_TOKEN", "CAY_AUTH_TOKEN", "III_SANDBOX_TOKEN", "III_AUTH_TOKEN");
}

/** The image of sandboxes that are made without one. */
export function defaultImage(): string {
  return env("CAY_IMAGE") ?? "host";
}
