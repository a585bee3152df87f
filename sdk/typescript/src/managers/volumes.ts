import { bodyOf, type Content, gather, streamOf } from "../bytes.js";
import type {
  FileInfo,
  FileMeta,
  Success,
  Volume,
  VolumeAttached,
  VolumeAttachInput,
  VolumeDeleted,
  VolumeDetached,
  VolumeList,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** Disks that outlive sandboxes. */
export class VolumeManager extends OfDaemon {
  create(name: string, driver?: string, options: CallOptions & { sizeMb?: number } = {}): Promise<Volume> {
    const [fields, call] = split(options);
    return this.client.call("volume_create", { ...fields, name, driver }, call);
  }

  list(options: CallOptions = {}): Promise<VolumeList> {
    return this.client.call("volume_list", {}, options);
  }

  get(volumeId: string, options: CallOptions = {}): Promise<Volume> {
    return this.client.call("volume_get", { volumeId }, options);
  }

  delete(volumeId: string, options: CallOptions = {}): Promise<VolumeDeleted> {
    return this.client.call("volume_delete", { volumeId }, options);
  }

  /** Mounts it in a sandbox, at once. */
  attach(
    volumeId: string,
    sandboxId: string,
    mountPath: string,
    options: With<Omit<VolumeAttachInput, "volumeId" | "sandboxId" | "mountPath">> = {},
  ): Promise<VolumeAttached> {
    const [fields, call] = split(options);
    return this.client.call("volume_attach", { ...fields, volumeId, sandboxId, mountPath }, call);
  }

  /** `sandboxId` and `mountPath` say from where, when it is attached more than once. */
  detach(
    volumeId: string,
    options: CallOptions & { sandboxId?: string; mountPath?: string } = {},
  ): Promise<VolumeDetached> {
    const [fields, call] = split(options);
    return this.client.call("volume_detach", { ...fields, volumeId }, call);
  }

  /** The files of a volume, whether it is attached or not. */
  files(volumeId: string): VolumeFiles {
    return new VolumeFiles(this.client, volumeId);
  }
}

/** Files of a volume, without a sandbox. */
export class VolumeFiles extends OfDaemon {
  readonly #volumeId: string;

  constructor(client: OfDaemon["client"], volumeId: string) {
    super(client);
    this.#volumeId = volumeId;
  }

  list(path?: string, options: CallOptions = {}): Promise<FileInfo[]> {
    return this.client.call("volume_files", { volumeId: this.#volumeId, path }, options);
  }

  stat(path: string, options: CallOptions = {}): Promise<FileMeta> {
    return this.client.call("volume_file_info", { volumeId: this.#volumeId, path }, options);
  }

  /** A text file. */
  read(path: string, options: CallOptions = {}): Promise<string> {
    return this.client.call("volume_read", { volumeId: this.#volumeId, path }, options);
  }

  async readBytes(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    const { pieces, length } = await this.client.bytes(
      "volume_download",
      { volumeId: this.#volumeId, path },
      options,
    );
    return gather(pieces, length);
  }

  async readStream(path: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { pieces } = await this.client.bytes(
      "volume_download",
      { volumeId: this.#volumeId, path },
      options,
    );
    return streamOf(pieces);
  }

  /** Writes a file: text, bytes or a stream, of any size. */
  write(path: string, content: Content, options: CallOptions & { mode?: string } = {}): Promise<Success> {
    const [fields, call] = split(options);
    const input = { ...fields, volumeId: this.#volumeId, path };
    if (typeof content === "string" && fields.mode === undefined && content.length < 1 << 20)
      return this.client.call("volume_write", { volumeId: this.#volumeId, path, content }, call);
    return this.client.send("volume_upload", input, bodyOf(content), call);
  }

  mkdir(path: string, options: CallOptions = {}): Promise<Success> {
    return this.client.call("volume_mkdir", { volumeId: this.#volumeId, path }, options);
  }

  delete(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("volume_remove_file", { ...fields, volumeId: this.#volumeId, path }, call);
  }
}
