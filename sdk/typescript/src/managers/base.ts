import type { HttpClient } from "../client.js";

/** What is about one sandbox. */
export class OfSandbox {
  protected readonly client: HttpClient;
  protected readonly sandboxId: string;

  constructor(client: HttpClient, sandboxId: string) {
    this.client = client;
    this.sandboxId = sandboxId;
  }
}

/** What is about the daemon as a whole. */
export class OfDaemon {
  protected readonly client: HttpClient;

  constructor(client: HttpClient) {
    this.client = client;
  }
}
