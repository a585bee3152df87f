import type { OperationRow, Operations } from "./generated.js";

/**
 * POSTs and PUTs that may be sent again when the connection broke and nobody knows whether they had their effect:
 * those that only read, and those that do the same when they are done twice. GETs are safe by themselves, what makes
 * something carries an Idempotency-Key, and commands have an id of ours by which they are found again.
 */
export const SAFE: ReadonlySet<keyof Operations> = new Set<keyof Operations>([
  "env_get",
  "env_set",
  "fs_chmod",
  "fs_delete",
  "fs_download",
  "fs_info",
  "fs_list",
  "fs_mkdir",
  "fs_read",
  "fs_rmdir",
  "fs_search",
  "fs_upload",
  "fs_watch",
  "fs_write",
  "image_pull",
  "proxy_config",
  "proxy_sign",
  "sandbox_network_explain_post",
  "sandbox_network_set",
  "sandbox_renew",
  "snapshot_label",
  "terminal_resize",
  "volume_download",
  "volume_file_info",
  "volume_files",
  "volume_mkdir",
  "volume_read",
  "volume_upload",
  "volume_write",
  "webhook_update",
]);

/** Operations that take as long as their work does: a command, a pull, a copy of a disk. */
const PATIENT: ReadonlySet<keyof Operations> = new Set<keyof Operations>([
  "cmd_run",
  "cmd_background",
  "fs_download",
  "fs_upload",
  "git_checkout",
  "git_clone",
  "git_commit",
  "git_pull",
  "git_push",
  "image_commit",
  "image_export",
  "image_import",
  "image_prune",
  "image_pull",
  "interp_context_create",
  "interp_context_restart",
  "interp_execute",
  "interp_install",
  "proxy_request",
  "sandbox_clone",
  "sandbox_create",
  "sandbox_diff",
  "sandbox_fork",
  "sandbox_start",
  "sandbox_stop",
  "snapshot_clone",
  "snapshot_create",
  "snapshot_export",
  "snapshot_import",
  "snapshot_restore",
  "template_build",
  "template_build_directory",
  "template_create",
  "terminal_recording",
  "volume_download",
  "volume_upload",
]);

/** Must the answer not be given up for its slowness? */
export function mayWait(op: keyof Operations, row: OperationRow): boolean {
  return row.upgrade === true || PATIENT.has(op);
}
