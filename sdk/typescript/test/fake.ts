// A stand-in for the daemon: answers as a test says, and can break a connection at any moment.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

type Handler = (seen: Seen, answer: ServerResponse) => void;

export class Fake {
  readonly seen: Seen[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  url = "";

  /** The n-th request goes to the n-th handler, all further ones to the last. */
  constructor(...handlers: Handler[]) {
    this.#server = createServer(async (request, answer) => {
      let body = "";
      request.on("error", () => undefined);
      for await (const piece of request) body += piece;
      const seen = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body };
      this.seen.push(seen);
      handlers[Math.min(this.seen.length, handlers.length) - 1]?.(seen, answer);
    });
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  async start(path?: string): Promise<this> {
    await new Promise<void>((go) =>
      path ? this.#server.listen(path, go) : this.#server.listen(0, "127.0.0.1", go),
    );
    this.url = path ? `unix:${path}` : `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((go) => this.#server.close(go));
  }
}

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Handler {
  return (_, answer) => {
    answer.writeHead(status, { "content-type": "application/json", ...headers });
    answer.end(JSON.stringify(value));
  };
}

/** Takes the request and says nothing, ever. */
export const hang: Handler = () => undefined;

/** Takes the request and breaks the connection. */
export const cut: Handler = (_, answer) => {
  answer.destroy();
};

/** Events, and then the end of the stream, or of the connection. */
export function events(list: unknown[], end: "end" | "cut" | "stay" = "end"): Handler {
  return (_, answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write(list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""), () => {
      if (end === "end") answer.end();
      if (end === "cut") answer.destroy();
    });
  };
}

export const info = {
  id: "sbx_000000000000000000000001",
  name: "fake",
  image: "host",
  status: "running",
  createdAt: 1,
  expiresAt: 2,
  metadata: {},
  config: {},
  runtime: "fake",
  isolation: "none",
};
