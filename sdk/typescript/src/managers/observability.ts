import type {
  GlobalMetrics,
  Health,
  ObservabilityMetrics,
  ObservabilityTracesInput,
  Traces,
  TracesCleared,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** How the daemon is and what it has done. */
export class ObservabilityClient extends OfDaemon {
  /** One for each call, the newest first. */
  traces(options: With<ObservabilityTracesInput> = {}): Promise<Traces> {
    const [fields, call] = split(options);
    return this.client.call("observability_traces", fields, call);
  }

  /** Counts and times of all calls. */
  metrics(options: CallOptions = {}): Promise<ObservabilityMetrics> {
    return this.client.call("observability_metrics", {}, options);
  }

  /** Forgets traces older than that, in Unix milliseconds; all when none is given. */
  clear(before?: number, options: CallOptions = {}): Promise<TracesCleared> {
    return this.client.call("observability_clear", { before }, options);
  }

  health(options: CallOptions = {}): Promise<Health> {
    return this.client.call("metrics_health", {}, options);
  }

  /** What there is and was of sandboxes. */
  totals(options: CallOptions = {}): Promise<GlobalMetrics> {
    return this.client.call("metrics_global", {}, options);
  }

  /** All numbers in the text format of Prometheus. */
  async prometheus(options: CallOptions = {}): Promise<string> {
    return String(await this.client.call("metrics_prometheus", {}, options));
  }
}
