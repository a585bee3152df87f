import type { EventStream } from "../events.js";
import type { LogEvent, Metrics } from "../generated.js";
import { type CallOptions, split } from "../options.js";
import { OfSandbox } from "./base.js";

/** What a sandbox's main process says, and what the sandbox uses, as it goes on. */
export class StreamManager extends OfSandbox {
  /** Lines of the main process; the last event is `end`, which with `follow` comes when it has ended. */
  logs(options: CallOptions & { tail?: number; follow?: boolean } = {}): EventStream<LogEvent> {
    const [fields, call] = split(options);
    return this.client.events("stream_logs", { ...fields, sandboxId: this.sandboxId }, call);
  }

  /** A sample every so many seconds, the first at once. */
  metrics(interval?: number, options: CallOptions = {}): EventStream<Metrics> {
    return this.client.events("stream_metrics", { sandboxId: this.sandboxId, interval }, options);
  }
}
