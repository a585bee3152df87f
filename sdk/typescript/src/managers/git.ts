import type { EventStream } from "../events.js";
import type {
  ExecResult,
  GitBranches,
  GitBranchInput,
  GitCloneInput,
  GitCommitInput,
  GitDiff,
  GitDiffInput,
  GitEntry,
  GitEvent,
  GitLogInput,
  GitPullInput,
  GitPushInput,
  GitStatus,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfSandbox } from "./base.js";

type Options<T, Known extends keyof T = never> = With<Omit<T, Known | "sandboxId">>;

/** Git in a sandbox. `path` is the repository's folder; a git that fails is a result with its exit code. */
export class GitManager extends OfSandbox {
  clone(url: string, options: Options<GitCloneInput, "url"> = {}): Promise<ExecResult> {
    const [fields, call] = split(options);
    return this.client.call("git_clone", { ...fields, sandboxId: this.sandboxId, url }, call);
  }

  /** A clone that tells how far it is; the last event is its result. */
  cloneStream(url: string, options: Options<GitCloneInput, "url"> = {}): EventStream<GitEvent> {
    const [fields, call] = split(options);
    return this.client.events("git_clone", { ...fields, sandboxId: this.sandboxId, url }, call);
  }

  status(path?: string, options: CallOptions = {}): Promise<GitStatus> {
    return this.client.call("git_status", { sandboxId: this.sandboxId, path }, options);
  }

  /** `all` stages everything first. */
  commit(message: string, options: Options<GitCommitInput, "message"> = {}): Promise<ExecResult> {
    const [fields, call] = split(options);
    return this.client.call("git_commit", { ...fields, sandboxId: this.sandboxId, message }, call);
  }

  diff(options: Options<GitDiffInput> = {}): Promise<GitDiff> {
    const [fields, call] = split(options);
    return this.client.call("git_diff", { ...fields, sandboxId: this.sandboxId }, call);
  }

  log(options: Options<GitLogInput> = {}): Promise<{ entries: GitEntry[] }> {
    const [fields, call] = split(options);
    return this.client.call("git_log", { ...fields, sandboxId: this.sandboxId }, call);
  }

  /** Lists branches; with `name` makes one and goes to it, or deletes it. */
  branch(options: Options<GitBranchInput> = {}): Promise<GitBranches> {
    const [fields, call] = split(options);
    return this.client.call("git_branch", { ...fields, sandboxId: this.sandboxId }, call);
  }

  checkout(ref: string, path?: string, options: CallOptions = {}): Promise<ExecResult> {
    return this.client.call("git_checkout", { sandboxId: this.sandboxId, ref, path }, options);
  }

  push(options: Options<GitPushInput> = {}): Promise<ExecResult> {
    const [fields, call] = split(options);
    return this.client.call("git_push", { ...fields, sandboxId: this.sandboxId }, call);
  }

  pull(options: Options<GitPullInput> = {}): Promise<ExecResult> {
    const [fields, call] = split(options);
    return this.client.call("git_pull", { ...fields, sandboxId: this.sandboxId }, call);
  }
}
