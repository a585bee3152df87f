/** A new id of a command. It is ours, so that we know it whatever becomes of the answer. */
export function newExecId(): string {
  return `ex_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`;
}
