import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { bodyOf, type Content, gather, streamOf } from "../bytes.js";
import { FileNotFoundError } from "../errors.js";
import type { EventStream } from "../events.js";
import type {
  FileChange,
  FileInfo,
  FileMeta,
  FsCopyInput,
  FsSymlinkInput,
  FsUploadInput,
  FsWatchInput,
  Success,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfSandbox } from "./base.js";

/** How a path is meant, for every call with one. */
export interface PathOptions extends CallOptions {
  /** Also outside of the workspace. */
  anywhere?: boolean | undefined;
  /** `base64`: the path is that of its bytes, for names that are not UTF-8. */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** Which part of a file is read. */
export interface ReadOptions extends PathOptions {
  /** The first byte; the beginning when absent. */
  offset?: number | undefined;
  /** At most so many bytes; all when absent. */
  limit?: number | undefined;
}

/** How a file is written. */
export interface WriteOptions extends PathOptions {
  /** Its permissions, as "0755". */
  mode?: string | undefined;
}

/** What to watch. */
export interface WatchOptions extends Omit<FsWatchInput, "sandboxId" | "path">, CallOptions {}

/** Files of a sandbox. Relative paths begin in its workspace. */
export class FileSystem extends OfSandbox {
  /** A text file. */
  read(path: string, options: ReadOptions = {}): Promise<string> {
    const [fields, call] = split(options);
    return this.client.call("fs_read", { ...fields, sandboxId: this.sandboxId, path }, call);
  }

  /** Writes a file, and the folders that it needs. Bytes and streams go as they are, whatever their size. */
  write(path: string, content: Content, options: WriteOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    if (typeof content === "string" && fields.mode === undefined && content.length < 1 << 20) {
      const { mode: _, ...rest } = fields;
      return this.client.call("fs_write", { ...rest, sandboxId: this.sandboxId, path, content }, call);
    }
    return this.#send(path, bodyOf(content), fields, call);
  }

  /** A file's bytes. */
  async readBytes(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const { pieces, length } = await this.#download(path, options);
    return gather(pieces, length);
  }

  /** A file's bytes as they come, for files of any size. */
  async readStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return streamOf((await this.#download(path, options)).pieces);
  }

  /** Writes a file: text is base64, as the public contract has it; anything else is what it is. */
  upload(path: string, content: Content, options: WriteOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    const body = typeof content === "string" ? Buffer.from(content, "base64") : bodyOf(content);
    return this.#send(path, body, fields, call);
  }

  /** A file's bytes as base64. */
  async download(path: string, options: ReadOptions = {}): Promise<string> {
    return Buffer.from(await this.readBytes(path, options)).toString("base64");
  }

  /** Copies a file of this machine into the sandbox; it has the same permissions there. */
  async uploadFile(local: string, path: string, options: WriteOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    const mode = fields.mode ?? ((await stat(local)).mode & 0o777).toString(8).padStart(4, "0");
    return this.#send(
      path,
      createReadStream(local, { highWaterMark: 256 * 1024 }),
      { ...fields, mode },
      call,
    );
  }

  /** Copies a file of the sandbox to this machine; there is either all of it or nothing. */
  async downloadFile(path: string, local: string, options: PathOptions = {}): Promise<void> {
    const { pieces } = await this.#download(path, options);
    const part = `${local}.${crypto.randomUUID().slice(0, 8)}.part`;
    try {
      await pipeline(pieces, createWriteStream(part, { flags: "wx" }));
      await rename(part, local);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }

  /** Removes a file; one that is not there is fine. */
  delete(path: string, options: PathOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("fs_delete", { ...fields, sandboxId: this.sandboxId, path }, call);
  }

  /** What is in a folder, the workspace when none is named. */
  list(path?: string, options: PathOptions = {}): Promise<FileInfo[]> {
    const [fields, call] = split(options);
    return this.client.call("fs_list", { ...fields, sandboxId: this.sandboxId, path }, call);
  }

  /** Paths of the files whose names match a glob, below a folder. */
  search(pattern: string, dir?: string, options: PathOptions = {}): Promise<string[]> {
    const [fields, call] = split(options);
    return this.client.call("fs_search", { ...fields, sandboxId: this.sandboxId, pattern, dir }, call);
  }

  /** About several files; all must be there. */
  async info(paths: string[], options: PathOptions = {}): Promise<FileMeta[]> {
    const [fields, call] = split(options);
    const answer = await this.client.call("fs_info", { ...fields, sandboxId: this.sandboxId, paths }, call);
    return answer as FileMeta[];
  }

  /** About one file. */
  async stat(path: string, options: PathOptions = {}): Promise<FileMeta> {
    const [fields, call] = split(options);
    const answer = await this.client.call("fs_info", { ...fields, sandboxId: this.sandboxId, path }, call);
    return answer as FileMeta;
  }

  async exists(path: string, options: PathOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof FileNotFoundError) return false;
      throw error;
    }
  }

  /** As `mv`: onto an existing folder it goes into that. */
  move(from: string, to: string, options: PathOptions = {}): Promise<Success> {
    return this.moveAll([{ from, to }], options);
  }

  /** Several, in order; it stops at the first that fails. */
  moveAll(moves: { from: string; to: string }[], options: PathOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("fs_move", { ...fields, sandboxId: this.sandboxId, moves }, call);
  }

  /** Copies a file or a folder within the sandbox. */
  copy(
    from: string,
    to: string,
    options: With<Omit<FsCopyInput, "sandboxId" | "from" | "to">> = {},
  ): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("fs_copy", { ...fields, sandboxId: this.sandboxId, from, to }, call);
  }

  /** Makes a link at `path` that leads to `target`. */
  symlink(
    target: string,
    path: string,
    options: With<Omit<FsSymlinkInput, "sandboxId" | "target" | "path">> = {},
  ): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("fs_symlink", { ...fields, sandboxId: this.sandboxId, target, path }, call);
  }

  /** Makes folders with all that are above them. */
  mkdir(path: string | string[], options: PathOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    const paths = typeof path === "string" ? [path] : path;
    return this.client.call("fs_mkdir", { ...fields, sandboxId: this.sandboxId, paths }, call);
  }

  /** Removes folders with all that is in them. */
  rmdir(path: string | string[], options: PathOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    const paths = typeof path === "string" ? [path] : path;
    return this.client.call("fs_rmdir", { ...fields, sandboxId: this.sandboxId, paths }, call);
  }

  /** Permissions as "0755" or "u+x". */
  chmod(path: string, mode: string, options: PathOptions = {}): Promise<Success> {
    const [fields, call] = split(options);
    return this.client.call("fs_chmod", { ...fields, sandboxId: this.sandboxId, path, mode }, call);
  }

  /** Changes as they happen, after a first event `ready`. */
  watch(path?: string, options: WatchOptions = {}): EventStream<FileChange> {
    const [fields, call] = split(options);
    return this.client.events("fs_watch", { ...fields, sandboxId: this.sandboxId, path }, call);
  }

  #download(path: string, options: ReadOptions) {
    const [fields, call] = split(options);
    return this.client.bytes("fs_download", { ...fields, sandboxId: this.sandboxId, path }, call);
  }

  #send(
    path: string,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    fields: Omit<FsUploadInput, "sandboxId" | "path">,
    call: CallOptions,
  ): Promise<Success> {
    return this.client.send("fs_upload", { ...fields, sandboxId: this.sandboxId, path }, body, call);
  }
}
