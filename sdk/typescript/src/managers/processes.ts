import type { ProcessKilled, ProcessList, ProcessTop, ProcKillInput } from "../generated.js";
import type { CallOptions } from "../options.js";
import { OfSandbox } from "./base.js";

/** Processes of a sandbox, by the numbers that they have in it. */
export class ProcessManager extends OfSandbox {
  list(options: CallOptions = {}): Promise<ProcessList> {
    return this.client.call("proc_list", { sandboxId: this.sandboxId }, options);
  }

  /** TERM when no signal is named. */
  kill(pid: number, signal?: ProcKillInput["signal"], options: CallOptions = {}): Promise<ProcessKilled> {
    return this.client.call("proc_kill", { sandboxId: this.sandboxId, pid, signal }, options);
  }

  /** With what each of them uses. */
  top(options: CallOptions = {}): Promise<ProcessTop> {
    return this.client.call("proc_top", { sandboxId: this.sandboxId }, options);
  }
}
