import type { EventStream } from "../events.js";
import type {
  CodeContext,
  Execution,
  ExecutionEvent,
  Installed,
  InterpContextCreateInput,
  InterpExecuteInput,
  InterpInstallInput,
  Kernel,
  Success,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfSandbox } from "./base.js";

/** How code is run; with `contextId` where the code before it left off. */
export type RunOptions = With<Omit<InterpExecuteInput, "sandboxId" | "code" | "language">>;
export type ContextOptions = With<Omit<InterpContextCreateInput, "sandboxId">>;

/** Code in a sandbox, as a notebook runs it. */
export class CodeInterpreter extends OfSandbox {
  /** Runs code and gives what it printed and showed; an exception of the code is in `error` and `exception`. */
  run(code: string, language?: string, options: RunOptions = {}): Promise<Execution> {
    const [fields, call] = split(options);
    return this.client.call("interp_execute", { ...fields, sandboxId: this.sandboxId, code, language }, call);
  }

  /** As `run`, with what it prints and shows as it does. */
  runStream(code: string, language?: string, options: RunOptions = {}): EventStream<ExecutionEvent> {
    const [fields, call] = split(options);
    return this.client.events(
      "interp_execute",
      { ...fields, sandboxId: this.sandboxId, code, language },
      call,
    );
  }

  /** Installs packages by `pip`, `npm` or `go`. */
  install(
    packages: string[],
    manager?: string,
    options: With<Omit<InterpInstallInput, "sandboxId" | "packages" | "manager">> = {},
  ): Promise<Installed> {
    const [fields, call] = split(options);
    return this.client.call(
      "interp_install",
      { ...fields, sandboxId: this.sandboxId, packages, manager },
      call,
    );
  }

  /** The languages that the sandbox can run. */
  kernels(options: CallOptions = {}): Promise<Kernel[]> {
    return this.client.call("interp_kernels", { sandboxId: this.sandboxId }, options);
  }

  /** An interpreter that keeps its variables between calls of `run` with its id. */
  createContext(options: ContextOptions = {}): Promise<CodeContext> {
    const [fields, call] = split(options);
    return this.client.call("interp_context_create", { ...fields, sandboxId: this.sandboxId }, call);
  }

  async listContexts(options: CallOptions = {}): Promise<CodeContext[]> {
    return (await this.client.call("interp_context_list", { sandboxId: this.sandboxId }, options)).contexts;
  }

  getContext(contextId: string, options: CallOptions = {}): Promise<CodeContext> {
    return this.client.call("interp_context_get", { sandboxId: this.sandboxId, contextId }, options);
  }

  deleteContext(contextId: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("interp_context_delete", { sandboxId: this.sandboxId, contextId }, options);
  }

  /** A new interpreter under the same id. */
  restartContext(contextId: string, options: CallOptions = {}): Promise<CodeContext> {
    return this.client.call("interp_context_restart", { sandboxId: this.sandboxId, contextId }, options);
  }

  /** Ends what it runs; its variables stay. */
  interruptContext(contextId: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("interp_context_interrupt", { sandboxId: this.sandboxId, contextId }, options);
  }
}
