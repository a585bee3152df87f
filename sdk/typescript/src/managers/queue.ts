import type { HttpClient } from "../client.js";
import type { Command } from "../exec.js";
import type {
  Job,
  JobCancelled,
  JobList,
  JobLogs,
  JobsPurged,
  QueueListInput,
  QueueSubmitInput,
} from "../generated.js";
import { type CallOptions, sleep, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

const ENDED = new Set<string>(["completed", "failed", "cancelled"]);

/** Jobs of all sandboxes: commands that the daemon runs in turn, and tries again. */
export class JobManager extends OfDaemon {
  list(options: With<QueueListInput> = {}): Promise<JobList> {
    const [fields, call] = split(options);
    return this.client.call("queue_list", fields, call);
  }

  status(jobId: string, options: CallOptions = {}): Promise<Job> {
    return this.client.call("queue_status", { jobId }, options);
  }

  /** What its command has put out from `cursor` on. */
  logs(jobId: string, options: CallOptions & { cursor?: number } = {}): Promise<JobLogs> {
    const [fields, call] = split(options);
    return this.client.call("queue_logs", { ...fields, jobId }, call);
  }

  /** Takes a job that waits out of the queue. */
  cancel(jobId: string, options: CallOptions = {}): Promise<JobCancelled> {
    return this.client.call("queue_cancel", { jobId }, options);
  }

  /** The job when it has ended, however that was. */
  async wait(jobId: string, options: CallOptions = {}): Promise<Job> {
    for (let pause = 20; ; pause = Math.min(pause * 2, 1000)) {
      const job = await this.status(jobId, options);
      if (ENDED.has(job.status)) return job;
      await sleep(pause, options.signal);
    }
  }

  /** Jobs that failed for good. */
  dlq(limit?: number, options: CallOptions & { offset?: number; sandboxId?: string } = {}): Promise<JobList> {
    const [fields, call] = split(options);
    return this.client.call("queue_dlq", { ...fields, limit }, call);
  }

  /** Forgets all jobs that failed, or those of one sandbox. */
  purge(options: CallOptions & { sandboxId?: string } = {}): Promise<JobsPurged> {
    const [fields, call] = split(options);
    return this.client.call("queue_purge", fields, call);
  }

  /** Runs a job that failed once more. */
  requeue(jobId: string, options: CallOptions = {}): Promise<Job> {
    return this.client.call("queue_requeue", { jobId }, options);
  }

  /** Forgets one job that failed. */
  forget(jobId: string, options: CallOptions = {}): Promise<JobsPurged> {
    return this.client.call("queue_forget", { jobId }, options);
  }
}

/** Jobs, with a sandbox to run new ones in. */
export class QueueManager extends JobManager {
  readonly #sandboxId: string;

  constructor(client: HttpClient, sandboxId: string) {
    super(client);
    this.#sandboxId = sandboxId;
  }

  /** Queues a command. */
  submit(
    command: Command,
    options: With<Omit<QueueSubmitInput, "sandboxId" | "command">> = {},
  ): Promise<Job> {
    const [fields, call] = split(options);
    return this.client.call("queue_submit", { ...fields, sandboxId: this.#sandboxId, command }, call);
  }
}
