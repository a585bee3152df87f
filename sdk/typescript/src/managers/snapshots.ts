import { streamOf } from "../bytes.js";
import type {
  SandboxInfo,
  Snapshot,
  SnapshotDeleted,
  SnapshotImportInput,
  SnapshotLabelInput,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** Snapshots of all sandboxes, also of those that are gone. */
export class SnapshotManager extends OfDaemon {
  /** All of them, the newest first, or those with all of these labels. */
  async list(options: CallOptions & { labels?: Record<string, string> } = {}): Promise<Snapshot[]> {
    const [fields, call] = split(options);
    return (await this.client.call("snapshot_all", fields, call)).snapshots;
  }

  get(snapshotId: string, options: CallOptions = {}): Promise<Snapshot> {
    return this.client.call("snapshot_get", { snapshotId }, options);
  }

  delete(snapshotId: string, options: CallOptions = {}): Promise<SnapshotDeleted> {
    return this.client.call("snapshot_delete", { snapshotId }, options);
  }

  /** Another name, other labels. */
  label(snapshotId: string, options: With<Omit<SnapshotLabelInput, "snapshotId">>): Promise<Snapshot> {
    const [fields, call] = split(options);
    return this.client.call("snapshot_label", { ...fields, snapshotId }, call);
  }

  /** A new sandbox that begins there; `getSandbox()` makes it one to work with. */
  clone(
    snapshotId: string,
    name?: string,
    options: CallOptions & { unique?: boolean } = {},
  ): Promise<SandboxInfo> {
    const [fields, call] = split(options);
    return this.client.call("snapshot_clone", { ...fields, snapshotId, name }, call);
  }

  /** As a tar archive. */
  async export(snapshotId: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return streamOf((await this.client.bytes("snapshot_export", { snapshotId }, options)).pieces);
  }

  /** From an archive on the daemon's machine. */
  import(
    path: string,
    image: string,
    options: With<Omit<SnapshotImportInput, "path" | "image">> = {},
  ): Promise<Snapshot> {
    const [fields, call] = split(options);
    return this.client.call("snapshot_import", { ...fields, path, image }, call);
  }
}
