import { streamOf } from "../bytes.js";
import type { EventStream } from "../events.js";
import type {
  Image,
  ImageDeleted,
  ImageImportInput,
  ImagePrune,
  ImagePruneInput,
  ImagePullInput,
  ImageShortName,
  PullEvent,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** Images that sandboxes are made from. */
export class ImageManager extends OfDaemon {
  async list(options: CallOptions = {}): Promise<Image[]> {
    return (await this.client.call("image_list", {}, options)).images;
  }

  /** Short names, and what they stand for. */
  async catalog(options: CallOptions = {}): Promise<ImageShortName[]> {
    return (await this.client.call("image_catalog", {}, options)).images;
  }

  get(name: string, options: CallOptions = {}): Promise<Image> {
    return this.client.call("image_get", { name }, options);
  }

  /** Gets an image from its registry. */
  pull(reference: string, options: With<Omit<ImagePullInput, "reference">> = {}): Promise<Image> {
    const [fields, call] = split(options);
    return this.client.call("image_pull", { ...fields, reference }, call);
  }

  /** A pull that tells how far it is; leaving it ends the pull. */
  pullStream(
    reference: string,
    options: With<Omit<ImagePullInput, "reference">> = {},
  ): EventStream<PullEvent> {
    const [fields, call] = split(options);
    return this.client.events("image_pull", { ...fields, reference }, call);
  }

  /** From an archive on the daemon's machine. */
  import(path: string, options: With<Omit<ImageImportInput, "path">> = {}): Promise<Image> {
    const [fields, call] = split(options);
    return this.client.call("image_import", { ...fields, path }, call);
  }

  /** As an archive that docker can load. */
  async export(name: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return streamOf((await this.client.bytes("image_export", { name }, options)).pieces);
  }

  tag(image: string, name: string, options: CallOptions = {}): Promise<Image> {
    return this.client.call("image_tag", { image, name }, options);
  }

  remove(name: string, options: CallOptions = {}): Promise<ImageDeleted> {
    return this.client.call("image_remove", { name }, options);
  }

  /** Removes images that nobody uses. */
  prune(options: With<ImagePruneInput> = {}): Promise<ImagePrune> {
    const [fields, call] = split(options);
    return this.client.call("image_prune", fields, call);
  }
}
