import type { EnvDeleted, EnvList, EnvSet, EnvValue } from "../generated.js";
import type { CallOptions } from "../options.js";
import { OfSandbox } from "./base.js";

/** The environment of a sandbox's commands. */
export class EnvManager extends OfSandbox {
  /** A variable; `exists` is false and `value` null when it is not set. */
  get(key: string, options: CallOptions = {}): Promise<EnvValue> {
    return this.client.call("env_get", { sandboxId: this.sandboxId, key }, options);
  }

  /** Sets variables for every command that starts from now on. */
  set(vars: Record<string, string>, options: CallOptions = {}): Promise<EnvSet> {
    return this.client.call("env_set", { sandboxId: this.sandboxId, vars }, options);
  }

  list(options: CallOptions = {}): Promise<EnvList> {
    return this.client.call("env_list", { sandboxId: this.sandboxId }, options);
  }

  delete(key: string, options: CallOptions = {}): Promise<EnvDeleted> {
    return this.client.call("env_delete", { sandboxId: this.sandboxId, key }, options);
  }
}
