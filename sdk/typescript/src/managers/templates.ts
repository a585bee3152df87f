import { bodyOf, type Content } from "../bytes.js";
import type { EventStream } from "../events.js";
import type {
  Template,
  TemplateBuildDirectoryInput,
  TemplateBuildEvent,
  TemplateBuildInput,
  TemplateCreateInput,
  TemplateDeleted,
} from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** Templates: sandboxes that are described once, and built ahead. */
export class TemplateManager extends OfDaemon {
  async list(options: CallOptions = {}): Promise<Template[]> {
    return (await this.client.call("template_list", {}, options)).templates;
  }

  get(templateId: string, options: CallOptions = {}): Promise<Template> {
    return this.client.call("template_get", { templateId }, options);
  }

  create(template: TemplateCreateInput, options: CallOptions = {}): Promise<Template> {
    return this.client.call("template_create", template, options);
  }

  delete(templateId: string, options: CallOptions = {}): Promise<TemplateDeleted> {
    return this.client.call("template_delete", { templateId }, options);
  }

  /** Builds what its config says now, not with the first sandbox. */
  build(templateId: string, options: With<Omit<TemplateBuildInput, "templateId">> = {}): Promise<Template> {
    const [fields, call] = split(options);
    return this.client.call("template_build", { ...fields, templateId }, call);
  }

  /** A build that tells how it goes. */
  buildStream(
    templateId: string,
    options: With<Omit<TemplateBuildInput, "templateId">> = {},
  ): EventStream<TemplateBuildEvent> {
    const [fields, call] = split(options);
    return this.client.events("template_build", { ...fields, templateId }, call);
  }

  /** Builds one from a tar archive of a folder with a Dockerfile or a cay.json. */
  buildDirectory(
    input: TemplateBuildDirectoryInput,
    archive: Content,
    options: CallOptions = {},
  ): Promise<Template> {
    return this.client.send("template_build_directory", input, bodyOf(archive), options);
  }

  /** Builds one from the text of a Dockerfile that copies nothing. */
  buildDockerfile(
    input: TemplateBuildDirectoryInput & { dockerfile: string },
    options: CallOptions = {},
  ): EventStream<TemplateBuildEvent> {
    return this.client.events("template_build_directory", input, options);
  }
}
