// Made by tools/generate.mjs from `cay serve --openapi`; do not edit.

/** A word that a newer daemon may say. */
export type OtherWord = string & Record<never, never>;

export interface OperationRow {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly keyed?: true;
  readonly upgrade?: true;
}

/** The version of the daemon that these types are of. */
export const apiVersion = "0.1.0";

/** what a sandbox may reach; see docs/network-policy.md */
export interface NetworkPolicy {
  /** what no rule matches (default deny); allow means public addresses */
  default?: "allow" | "deny" | OtherWord;
  /** who calls a published port and no rule matches (default allow) */
  defaultIngress?: "allow" | "deny" | OtherWord;
  /** at most 256; a text as allow@pypi.org:tcp:443 is taken for one too */
  rules?: NetworkRule[];
  /** rules that belong together, after the others: pypi, npm, github, debian, … */
  profiles?: string[];
  /** how names are asked for */
  dns?: NetworkDns;
  /** how fast (default: no limit) */
  rateLimit?: NetworkRateLimit;
  /** open at a time, 1 to 65536 (default 1024) */
  maxConnections?: number;
}

/** one rule; the first that matches decides */
export interface NetworkRule {
  /** what becomes of what it matches */
  action: "allow" | "deny" | OtherWord;
  /** who begins: the sandbox (egress, the default), or who calls a port of it */
  direction?: "egress" | "ingress" | "any" | OtherWord;
  /** an address, a range, a domain, *.suffix, a group (public, private, host, metadata, link-local, multicast, loopback, dns), or * (the default) */
  destination?: string;
  /** tcp, udp, icmp, icmpv6, several with commas (default: TCP and UDP, of a name TCP); a list is taken too */
  protocol?: string;
  /** 443, 8000-8100, several with commas (default: all); a number or a list is taken too */
  port?: string;
}

/** how names are asked for */
export interface NetworkDns {
  /** who is asked; else those of the host */
  nameservers?: string[];
  /** an answer with a private address is none (default true) */
  rebindProtection?: boolean;
  /** milliseconds, from 100 to 30000 (default 5000) */
  queryTimeout?: number;
}

/** how fast */
export interface NetworkRateLimit {
  /** what the sandbox sends */
  egress?: NetworkRate;
  /** what it is sent */
  ingress?: NetworkRate;
}

/** what is more is dropped */
export interface NetworkRate {
  /** 1024 to 12500000000 */
  bytesPerSecond: number;
  /** bytes at once (default: a tenth of a second, at least 128 KiB) */
  burst?: number;
}

/** what to mount, and where */
export interface VolumeMount {
  /** name or id of a volume */
  name?: string;
  /** in place of a name: a folder of the host, below one of CAY_BIND_ALLOW */
  path?: string;
  /** where it is in the sandbox; made when it is missing */
  mountPath: string;
  /** nothing can be written there */
  readOnly?: boolean;
  /** no program can be started from there */
  noexec?: boolean;
  /** the folder of it that is mounted; of a volume it is made when it is missing */
  subPath?: string;
  /** make the volume when none has the name */
  create?: boolean;
  /** with create: of the new volume (default CAY_DEFAULT_VOLUME) */
  sizeMb?: number;
}

/** a folder in memory */
export interface TmpfsMount {
  /** where it is in the sandbox; made when it is missing */
  mountPath: string;
  /** at most the sandbox's memory (default: half of it) */
  sizeMb?: number;
  /** nothing can be written there */
  readOnly?: boolean;
  /** no program can be started from there */
  noexec?: boolean;
}

/** a port to reach on the host */
export interface PortRequest {
  /** in the sandbox */
  containerPort: number;
  /** on the host; 0 = any that is free (default: containerPort) */
  hostPort?: number;
  /** tcp or udp */
  protocol?: "tcp" | "udp" | OtherWord;
  /** of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES allows */
  hostAddress?: string;
}

/** a change to a new sandbox's files, before anything runs */
export interface Patch {
  /** text and file write content, append adds it to the end, mkdir makes a directory with all above it, symlink points to target, copy copies from, remove and chmod are what they are called */
  type: "text" | "file" | "append" | "mkdir" | "symlink" | "copy" | "remove" | "chmod" | OtherWord;
  /** what is made or changed; below the workspace when it is not absolute */
  path: string;
  /** of text and append; of file its bytes in base64 */
  content?: string;
  /** of symlink: what it points to */
  target?: string;
  /** of copy: a file or directory of the image */
  from?: string;
  /** octal; of new files 0644 when absent, of directories 0755, of copies that of from */
  mode?: string;
  /** of text, file, symlink and copy: take the place of what is there already, which is refused else */
  replace?: boolean;
}

/** who pulls an image */
export interface RegistryAuth {
  /** at the registry */
  username: string;
  /** or a token */
  password: string;
}

/** one box */
export interface SandboxInfo {
  /** sbx_ and 24 hex digits */
  id: string;
  /** for people; the id when none was given */
  name: string;
  /** as it was asked for */
  image: string;
  /** what it does */
  status: "creating" | "running" | "paused" | "stopped" | "removing" | OtherWord;
  /** why it is stopped, or was paused unasked */
  reason?: string;
  /** Unix milliseconds */
  createdAt: number;
  /** Unix milliseconds; 0 = never */
  expiresAt: number;
  /** Unix milliseconds: when it is stopped if nothing is done with it until then; of one that runs and has an idleTimeout */
  idleAt?: number;
  /** true: it is about to stop, and takes no new commands */
  draining?: boolean;
  /** of the caller */
  metadata: Record<string, string>;
  /** main process, as arguments */
  entrypoint?: string[];
  /** how the main process is; with entrypoint */
  entrypointState?: EntrypointState;
  /** what it was made from */
  config: SandboxConfig;
  /** what runs it */
  runtime: string;
  /** what stands between it and the host */
  isolation: string;
  /** of a create: what was sent and ignored, and why; of a clone also what it lacks */
  warnings?: string[];
}

/** how the main process is */
export interface EntrypointState {
  /** unknown when the sandbox does not say */
  state: "running" | "exited" | "unknown" | OtherWord;
  /** once it has ended: 128 and the signal's number after a signal */
  exitCode?: number;
  /** why it ended, with exitCode */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
  /** Unix milliseconds, with exitCode */
  startedAt?: number;
  /** Unix milliseconds, with exitCode */
  finishedAt?: number;
  /** the last lines that it put out, once it has ended */
  output?: string;
}

/** what a sandbox was made from */
export interface SandboxConfig {
  /** as it was asked for */
  image: string;
  /** as it was asked for */
  name?: string;
  /** seconds; 0 = it does not expire */
  timeout: number;
  /** seconds without use until it is stopped */
  idleTimeout?: number;
  /** true: after idleTimeout it is removed, not stopped, as sandboxes of iii are */
  idleRemoves?: boolean;
  /** stop: after timeout it is stopped and keeps its files; absent = it is removed */
  onTimeout?: "remove" | "stop" | OtherWord;
  /** MB */
  memory: number;
  /** cores */
  cpu: number;
  /** MB */
  disk: number;
  /** processes and threads at a time */
  pids: number;
  /** what it may reach: true is the public internet; absent = nothing */
  network?: boolean | string | NetworkPolicy;
  /** environment of every command */
  env?: Record<string, string>;
  /** where commands start */
  workdir: string;
  /** of the caller */
  metadata?: Record<string, string>;
  /** main process, as arguments */
  entrypoint?: string[];
  /** name of the template that it is of */
  template?: string;
  /** imageId of the template's build that it was made from */
  templateBuild?: string;
  /** ids of the networks that it is connected to */
  networks?: string[];
  /** volumes, tmpfs and folders of the host */
  mounts?: Mount[];
  /** ports of it that can be reached on the host */
  ports?: PortRecord[];
}

/** what a sandbox has beside its own disk */
export interface Mount {
  /** what is mounted */
  type: "volume" | "tmpfs" | "bind" | OtherWord;
  /** of a volume */
  volumeId?: string;
  /** on the host, of a bind */
  path?: string;
  /** in the sandbox */
  mountPath: string;
  /** the folder of it that is shown */
  subPath?: string;
  /** nothing can be written there */
  readOnly: boolean;
  /** no program can be started from there */
  noexec: boolean;
  /** of a tmpfs */
  sizeMb?: number;
}

/** a port that can be reached on the host */
export interface PortRecord {
  /** in the sandbox */
  containerPort: number;
  /** on the host */
  hostPort: number;
  /** tcp or udp */
  protocol: "tcp" | "udp" | OtherWord;
  /** of the host */
  hostAddress: string;
  /** true when any free hostPort was asked for */
  anyPort?: boolean;
}

/** what a pull of the image and a build of the template do, then the sandbox or an error */
export type CreateEvent = ResolvingEvent | ResolvedEvent | LayerEvent | StoringEvent | BuildStepEvent | BuildOutputEvent | BuildStepDoneEvent | SandboxEvent | ErrorEvent;

/** the registry is asked for an image */
export interface ResolvingEvent {
  /** the registry is asked */
  event: "resolving";
  /** for what */
  reference: string;
}

/** the registry has said what an image is */
export interface ResolvedEvent {
  /** what will come is known */
  event: "resolved";
  /** what was asked for */
  reference: string;
  /** of the manifest */
  digest: string;
  /** whose programs it has */
  platform: string;
  /** how many */
  layers: number;
  /** of all of them, compressed */
  bytes: number;
}

/** how far a layer has come */
export interface LayerEvent {
  /** a layer has come further */
  event: "layer";
  /** counted from 0, the lowest first */
  index: number;
  /** may be empty in an import */
  digest: string;
  /** present: it was here already */
  state: "waiting" | "downloading" | "unpacking" | "done" | "present" | OtherWord;
  /** bytes */
  downloaded: number;
  /** bytes; 0 = not known */
  total: number;
  /** bytes on disk */
  unpacked: number;
}

/** an image is made to last */
export interface StoringEvent {
  /** all is here and is made to last */
  event: "storing";
}

/** a step of a build begins */
export interface BuildStepEvent {
  /** a step begins */
  event: "step";
  /** counted from 1 */
  step: number;
  /** in all */
  steps: number;
  /** what it does */
  text: string;
  /** of its file */
  line?: number;
  /** of a build with several */
  stage?: string;
}

/** output of a build */
export interface BuildOutputEvent {
  /** a command says something */
  event: "output";
  /** whose command it is */
  step: number;
  /** of which */
  stream: "stdout" | "stderr" | OtherWord;
  /** as text */
  data: string;
}

/** a step of a build is done */
export interface BuildStepDoneEvent {
  /** a step is done */
  event: "stepDone";
  /** which */
  step: number;
  /** true when it had been done before */
  cached: boolean;
  /** how long it took */
  durationMs: number;
}

/** the sandbox runs */
export interface SandboxEvent {
  /** the last one */
  event: "sandbox";
  /** it runs */
  sandbox: SandboxInfo;
}

/** it failed */
export interface ErrorEvent {
  /** the last one */
  event: "error";
  /** that an answer would have had */
  status: number;
  /** what was wrong and what to do */
  error: string;
  /** a stable word for programs */
  code: string;
  /** of a build: the step that failed */
  command?: string;
  /** of a build and of template_not_ready: the last lines of the command's output */
  output?: string;
  /** of template_not_ready: the command's */
  exitCode?: number;
}

/** one page of sandboxes */
export interface SandboxList {
  /** the newest first */
  items: SandboxInfo[];
  /** on all pages */
  total: number;
  /** counted from 1 */
  page: number;
  /** the most on a page */
  pageSize: number;
  /** cursor of the next page; absent on the last */
  nextCursor?: number;
}

/** it is done */
export interface Success {
  /** always true */
  success: boolean;
}

/** the network of a sandbox */
export interface SandboxNetwork {
  /** whose it is */
  sandboxId: string;
  /** what it may reach: false nothing, true the public internet, else a policy */
  network: boolean | string | Record<string, unknown>;
  /** its IPv4 address; null while it is not connected */
  address: string | null;
  /** its IPv6 address */
  address6: string | null;
  /** received since it was connected */
  rxBytes: number;
  /** sent */
  txBytes: number;
  /** how much it was refused, as far as this daemon has seen it */
  denied: number;
}

/** what would happen, and which rule says so */
export interface NetworkVerdict {
  /** what was asked for */
  host: string;
  /** what was asked for */
  port: number;
  /** what was asked for */
  protocol: string;
  /** whether it would be let out */
  allowed: boolean;
  /** let out if TLS or HTTP names a host that the policy allows there */
  inspect: boolean;
  /** number of the rule that decides, profiles' after one's own; -1 the default, -2 built in */
  rule: number;
  /** for people */
  why: string;
  /** what happens to the question for the name */
  name?: NameVerdict;
  /** what happens to each address */
  addresses?: AddressVerdict[];
}

/** what happens to a question for a name */
export interface NameVerdict {
  /** whether the name is answered */
  allowed: boolean;
  /** as in the verdict */
  inspect?: boolean;
  /** as in the verdict */
  rule: number;
  /** for people */
  why: string;
}

/** what happens to a connection to an address */
export interface AddressVerdict {
  /** of the name */
  address: string;
  /** whether it can be reached */
  allowed: boolean;
  /** as in the verdict */
  inspect?: boolean;
  /** as in the verdict */
  rule: number;
  /** for people */
  why: string;
  /** the sandbox was given this address for the name */
  pinned?: boolean;
}

/** what a sandbox was refused */
export interface NetworkLog {
  /** the oldest first */
  denied: NetworkDenial[];
  /** `after` for the next call */
  next: number;
}

/** something that a sandbox was refused */
export interface NetworkDenial {
  /** counts up, in one sandbox */
  seq: number;
  /** Unix milliseconds */
  time: number;
  /** egress or ingress */
  direction?: string;
  /** tcp, udp, icmp, dns … */
  protocol?: string;
  /** whom it called */
  address?: string;
  /** there */
  port?: number;
  /** the name that it asked for or said */
  name?: string;
  /** as in a NetworkVerdict */
  rule?: number;
  /** for people */
  why?: string;
  /** how often, since the line before */
  count: number;
}

/** a limit of a process */
export interface Rlimit {
  /** as setrlimit names them */
  resource: "cpu" | "fsize" | "data" | "stack" | "core" | "rss" | "nproc" | "nofile" | "memlock" | "as" | "locks" | "sigpending" | "msgqueue" | "nice" | "rtprio" | "rttime" | OtherWord;
  /** -1 = unlimited */
  soft: number;
  /** to which the process can raise it itself; the soft one when absent */
  hard?: number;
}

/** how a command ended */
export interface ExecResult {
  /** 128 and the signal's number after a signal */
  exitCode: number;
  /** as text */
  stdout: string;
  /** as text */
  stderr: string;
  /** milliseconds */
  duration: number;
  /** why it ended */
  reason: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
  /** what may be the matter with one that failed, such as the lack of a network */
  hint?: string;
  /** there was more output than is kept */
  truncated: boolean;
  /** by which it can be had again; X-Exec-Id says it too */
  execId?: string;
}

/** a piece of a command's output, or its end */
export interface ExecEvent {
  /** whose output; lost when some is not kept any more; error when the end cannot be told; exit is the last one */
  type: "stdout" | "stderr" | "lost" | "error" | "exit" | OtherWord;
  /** text; of exit the exit code, -1 after a timeout; of lost how many bytes */
  data: string;
  /** Unix milliseconds */
  timestamp: number;
  /** where to go on after it */
  cursor?: number;
  /** in the first event */
  execId?: string;
  /** of error: a stable word */
  code?: string;
  /** of exit: why it ended */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
}

/** how an attached command ended */
export interface AttachEnd {
  /** 128 and the signal's number after a signal */
  exitCode: number;
  /** why it ended */
  reason: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
  /** milliseconds */
  duration: number;
  /** bytes of output that were not kept */
  lostStdout: number;
  /** bytes of output that were not kept */
  lostStderr: number;
}

/** what happens to an attached command */
export interface AttachEvent {
  /** in the sandbox: it has started, or the caller is attached */
  pid?: number;
  /** bytes of output that are not kept any more */
  lost?: number;
}

/** a command that was left running */
export interface BackgroundExec {
  /** bg_ and 24 hex digits */
  id: string;
  /** where it runs */
  sandboxId: string;
  /** as text; arguments with spaces between them; its first 4,096 bytes */
  command: string;
  /** in the sandbox; absent when that has stopped */
  pid?: number;
  /** false once it has ended */
  running: boolean;
  /** Unix milliseconds */
  startedAt: number;
  /** once it has ended and that is known */
  exitCode?: number;
  /** Unix milliseconds, with exitCode */
  finishedAt?: number;
  /** why it ended, with exitCode */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
}

/** a part of a background command's output */
export interface ExecLogs {
  /** stdout and stderr as text */
  output: string;
  /** where to read on */
  cursor: number;
}

/** commands that run, and the last that ended */
export interface ExecList {
  /** of the sandbox, the newest first */
  execs: ExecInfo[];
}

/** a command that was started before */
export interface ExecInfo {
  /** ex_ and 24 hex digits; bg_ of one in the background */
  id: string;
  /** how it begins; of one in the background it may be absent */
  command?: string;
  /** false once it has ended */
  running: boolean;
  /** in the sandbox */
  pid: number;
  /** it runs on a terminal */
  tty: boolean;
  /** of its terminal */
  rows?: number;
  /** of its terminal */
  cols?: number;
  /** Unix milliseconds */
  startedAt: number;
  /** once it has ended */
  finishedAt?: number;
  /** once it has ended: 128 and the signal's number after a signal, 124 after a timeout */
  exitCode?: number;
  /** why it ended */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
  /** milliseconds, once it has ended */
  duration?: number;
  /** once it has ended: there was more output than is kept */
  truncated?: boolean;
}

/** how a command is, and a part of its output */
export interface ExecState {
  /** ex_ and 24 hex digits; bg_ of one in the background */
  id: string;
  /** how it begins; of one in the background it may be absent */
  command?: string;
  /** false once it has ended */
  running: boolean;
  /** in the sandbox */
  pid: number;
  /** it runs on a terminal */
  tty: boolean;
  /** of its terminal */
  rows?: number;
  /** of its terminal */
  cols?: number;
  /** Unix milliseconds */
  startedAt: number;
  /** once it has ended */
  finishedAt?: number;
  /** once it has ended: 128 and the signal's number after a signal, 124 after a timeout */
  exitCode?: number;
  /** why it ended */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
  /** milliseconds, once it has ended */
  duration?: number;
  /** once it has ended: there was more output than is kept */
  truncated?: boolean;
  /** from the cursor on, as text; of a terminal or in the background both streams */
  stdout: string;
  /** from the cursor on, as text */
  stderr: string;
  /** where to read on */
  cursor: number;
  /** bytes after the cursor that are not kept any more */
  lost: number;
  /** there is more already: read on */
  more: boolean;
}

/** a signal was sent */
export interface Interrupted {
  /** always true */
  success: boolean;
  /** the sandbox is paused: the signal is taken when it goes on */
  pending: boolean;
}

/** a file's text; bytes that are none are replaced */
export type FileText = string;

/** a directory; empty when there is none */
export type FileList = FileInfo[];

/** an entry of a directory */
export interface FileInfo {
  /** in its directory */
  name: string;
  /** absolute */
  path: string;
  /** the bytes of path, when they are no UTF-8: give it with pathEncoding base64 */
  pathBase64?: string;
  /** bytes */
  size: number;
  /** links are none */
  isDirectory: boolean;
  /** is it a symbolic link */
  isSymlink: boolean;
  /** octal digits, as chmod takes them */
  mode: string;
  /** of a link: what it says */
  target?: string;
  /** Unix milliseconds; negative before 1970 */
  modifiedAt: number;
}

/** absolute paths; at most 10000 */
export type FilePaths = string[];

/** a file's bytes in base64 with padding */
export type FileBytes = string;

/** a list for paths, one for path */
export type FileMetaAnswer = FileMetaList | FileMeta;

/** in the order of the paths */
export type FileMetaList = FileMeta[];

/** what a path is */
export interface FileMeta {
  /** absolute */
  path: string;
  /** the bytes of path, when they are no UTF-8: give it with pathEncoding base64 */
  pathBase64?: string;
  /** bytes */
  size: number;
  /** as ls shows them */
  permissions: string;
  /** name, or number when it has none */
  owner: string;
  /** name, or number when it has none */
  group: string;
  /** links are none */
  isDirectory: boolean;
  /** is it a symbolic link */
  isSymlink: boolean;
  /** octal digits, as chmod takes them */
  mode: string;
  /** of a link: what it says */
  target?: string;
  /** Unix milliseconds; negative before 1970 */
  modifiedAt: number;
}

/** what goes where */
export interface FileMove {
  /** absolute, or relative to the workspace */
  from: string;
  /** an existing directory takes it in */
  to: string;
}

/** a command in the queue */
export interface Job {
  /** job_ and 24 hex digits */
  id: string;
  /** where it runs */
  sandboxId: string;
  /** as text; arguments with spaces between them */
  command: string;
  /** how it is */
  status: "pending" | "running" | "completed" | "failed" | "cancelled" | OtherWord;
  /** how the command ended; not in lists */
  result?: ExecResult;
  /** of the result */
  exitCode?: number;
  /** why the last try failed */
  error?: string;
  /** tries that failed */
  retries: number;
  /** so many tries, and at least one */
  maxRetries: number;
  /** Unix milliseconds */
  createdAt: number;
  /** of the last try */
  startedAt?: number;
  /** when it completed, failed or was cancelled */
  completedAt?: number;
  /** it does not start before that */
  runAt?: number;
  /** the higher the earlier */
  priority: number;
  /** seconds that a try may take */
  timeout?: number;
  /** an exit code other than 0 is a failure */
  retryOnExit: boolean;
  /** seconds before the second try */
  retryDelay: number;
  /** the command of the last try */
  execId?: string;
}

/** a part of the queue */
export interface JobList {
  /** the newest first, without results */
  jobs: Job[];
  /** how many there are in all */
  total: number;
}

/** a part of what a job has put out */
export interface JobLogs {
  /** whose output it is */
  jobId: string;
  /** how the job is */
  status: "pending" | "running" | "completed" | "failed" | "cancelled" | OtherWord;
  /** no more will come */
  done: boolean;
  /** of the last try, from the cursor on */
  stdout: string;
  /** of the last try, from the cursor on */
  stderr: string;
  /** where to read on */
  cursor: number;
  /** bytes after the cursor that are not kept */
  lost: number;
}

/** a job does not run any more */
export interface JobCancelled {
  /** id of the job */
  cancelled: string;
}

/** jobs that failed are gone */
export interface JobsPurged {
  /** how many were forgotten */
  purged: number;
}

/** a change to files that are watched */
export interface FileChange {
  /** ready: what happens from here on is told; overflow: something is not, see lost and directories; end: the last one */
  type: "ready" | "create" | "write" | "remove" | "rename" | "chmod" | "overflow" | "end" | OtherWord;
  /** absolute; of an overflow one of the directories */
  path?: string;
  /** the bytes of path, when they are no UTF-8 */
  pathBase64?: string;
  /** what it was called before a rename */
  from?: string;
  /** the bytes of from, when they are no UTF-8 */
  fromBase64?: string;
  /** is it one */
  isDirectory?: boolean;
  /** Unix milliseconds */
  timestamp: number;
  /** of an overflow: changes that are not told, or more */
  lost?: number;
  /** when it is ready, so many are watched; of an overflow, so many are not */
  directories?: number;
  /** of the end: why */
  reason?: string;
}

/** what a run of code came to */
export interface Execution {
  /** stdout as text */
  output: string;
  /** null when it ended well, else what it said on stderr; the last 64 KiB of it */
  error: string | null;
  /** milliseconds */
  executionTime: number;
  /** of its process; of a context 0, or 1 after an exception */
  exitCode: number;
  /** there was more output than an answer can have; streams have no such bound */
  truncated: boolean;
  /** what it raised, where the language tells */
  exception?: CodeException;
  /** stderr as text */
  stderr: string;
  /** values and pictures, in the order in which they came */
  results: CodeResult[];
}

/** what code raised and did not catch */
export interface CodeException {
  /** its class */
  name: string;
  /** what it says */
  value: string;
  /** from the code inwards */
  traceback: CodeFrame[];
  /** of the code, where it is known */
  line: number | null;
  /** as the language shows it */
  text?: string;
}

/** a place in a traceback */
export interface CodeFrame {
  /** where it is */
  file: string;
  /** counted from 1 */
  line: number | null;
  /** in which function */
  function: string;
  /** the line itself */
  text?: string;
}

/** a value that code left, in one of the forms it can have */
export interface CodeResult {
  /** text, html, markdown, latex, json, table, image, svg or data */
  type: string;
  /** what data is */
  mime: string;
  /** a text, base64 of a picture, or of JSON and tables the value itself */
  data: unknown;
  /** it is the value of the last expression */
  main?: boolean;
  /** forms of the same thing have the same number */
  group?: number;
}

/** what code prints and gives as it comes, then its end or an error */
export type ExecutionEvent = CodeTextEvent | CodeResultEvent | CodeExceptionEvent | ExecutionDoneEvent | ErrorEvent;

/** code printed something */
export interface CodeTextEvent {
  /** which stream */
  event: "stdout" | "stderr" | OtherWord;
  /** a piece of it */
  text: string;
}

/** code left a value or a picture */
export interface CodeResultEvent {
  /** there is a result */
  event: "result";
  /** one form of it */
  result: CodeResult;
}

/** code ended with an exception */
export interface CodeExceptionEvent {
  /** code raised something */
  event: "exception";
  /** what */
  exception: CodeException;
}

/** a run of code has ended */
export interface ExecutionDoneEvent {
  /** the last one */
  event: "done";
  /** how it ended */
  execution: ExecutionEnd;
}

/** how a run of code ended */
export interface ExecutionEnd {
  /** null when it ended well, else what it said on stderr; the last 64 KiB of it */
  error: string | null;
  /** milliseconds */
  executionTime: number;
  /** of its process; of a context 0, or 1 after an exception */
  exitCode: number;
  /** there was more output than an answer can have; streams have no such bound */
  truncated: boolean;
  /** what it raised, where the language tells */
  exception?: CodeException;
  /** where it was not told by events */
  output?: string;
  /** where it was not told by events */
  stderr?: string;
  /** where they were not told by events */
  results?: CodeResult[];
}

/** packages were installed */
export interface Installed {
  /** what the manager said on stdout */
  output: string;
  /** always 0; else it is an error */
  exitCode: number;
}

/** the languages of a sandbox */
export type Kernels = Kernel[];

/** a language that this sandbox has */
export interface Kernel {
  /** of the program */
  name: string;
  /** for execute */
  language: string;
  /** for people */
  displayName: string;
  /** as it says itself; "" = nothing */
  version: string;
  /** in the sandbox */
  path: string;
  /** contexts can be made of it */
  stateful: boolean;
}

/** an interpreter that keeps its variables */
export interface CodeContext {
  /** ctx_ and 24 hex digits */
  id: string;
  /** where it is */
  sandboxId: string;
  /** what it runs */
  language: string;
  /** of its process */
  execId: string;
  /** Unix milliseconds */
  createdAt: number;
  /** of the language, to who made or restarted it */
  version?: string;
}

/** the contexts of a sandbox */
export interface CodeContextList {
  /** the newest first */
  contexts: CodeContext[];
}

/** a variable of the environment */
export interface EnvValue {
  /** name of the variable */
  key: string;
  /** commands have it */
  exists: boolean;
  /** null when they have not */
  value: string | null;
}

/** variables that were set */
export interface EnvSet {
  /** how many */
  count: number;
  /** their names */
  set: string[];
}

/** the environment that commands have */
export interface EnvList {
  /** how many */
  count: number;
  /** names and values */
  vars: Record<string, string>;
}

/** a variable that is gone */
export interface EnvDeleted {
  /** name of the variable */
  deleted: string;
}

/** for the server of the repository, and for this call only */
export interface GitCredentials {
  /** x-access-token when there is only a token */
  username?: string;
  /** or token */
  password?: string;
  /** or password */
  token?: string;
}

/** how far git is, then how it ended or an error */
export type GitEvent = GitProgress | GitResultEvent | ErrorEvent;

/** how far git is */
export interface GitProgress {
  /** git goes on */
  event: "progress";
  /** what it does */
  phase: string;
  /** of this phase */
  percent: number;
  /** how many are done */
  current: number;
  /** of how many */
  total: number;
  /** as git says it */
  text: string;
}

/** git has ended */
export interface GitResultEvent {
  /** the last one */
  event: "result";
  /** how it ended */
  result: ExecResult;
}

/** what is not as in the last commit */
export interface GitStatus {
  /** HEAD when none is checked out */
  branch: string;
  /** there are no files below */
  clean: boolean;
  /** changed, staged or not known to git */
  files: GitFile[];
  /** false of a workspace that has no repository, or of a sandbox without git */
  repository: boolean;
  /** when there is none: why */
  message?: string;
  /** what the branch follows */
  upstream?: string;
  /** commits that the upstream lacks */
  ahead?: number;
  /** commits of the upstream that it lacks */
  behind?: number;
  /** true when there are more files than an answer has: 20000, or 10 MiB of names */
  truncated?: boolean;
}

/** a file that is not as in the last commit */
export interface GitFile {
  /** the letters of git status --short without blanks; ?? is not known to git */
  status: string;
  /** in the repository */
  path: string;
  /** a commit would have it, or a part of it */
  staged: boolean;
  /** what it was called, when it was renamed */
  from?: string;
}

/** what has changed */
export interface GitDiff {
  /** as text */
  diff: string;
  /** it is longer than 10 MiB */
  truncated: boolean;
}

/** the last commits */
export interface GitLog {
  /** the newest first */
  entries: GitEntry[];
}

/** a commit */
export interface GitEntry {
  /** of the commit */
  hash: string;
  /** its first paragraph, as one line */
  message: string;
  /** name */
  author: string;
  /** of the author */
  email: string;
  /** ISO 8601 */
  date: string;
}

/** the branches of a repository */
export interface GitBranches {
  /** those of remotes begin with remotes/ */
  branches: string[];
  /** HEAD when none is checked out */
  current: string;
  /** true when there are more than an answer has: 20000, or 10 MiB of names */
  truncated?: boolean;
}

/** a threshold for what a sandbox uses */
export interface Alert {
  /** alrt_ and 24 hex digits */
  id: string;
  /** whose */
  sandboxId: string;
  /** what is looked at */
  metric: "cpu" | "memory" | "pids" | "disk" | OtherWord;
  /** percent of what the sandbox may use; of pids how many */
  threshold: number;
  /** what is done when it fires */
  action: "notify" | "pause" | "kill" | OtherWord;
  /** it has fired, and the value was not below since */
  triggered: boolean;
  /** Unix milliseconds */
  lastChecked?: number;
  /** Unix milliseconds */
  lastTriggered?: number;
  /** Unix milliseconds */
  createdAt: number;
}

/** alerts of a sandbox */
export interface AlertList {
  /** the newest first */
  alerts: Alert[];
}

/** an alert is gone */
export interface AlertDeleted {
  /** its id */
  deleted: string;
}

/** when alerts of a sandbox have fired */
export interface AlertHistory {
  /** the newest first */
  events: AlertEvent[];
  /** how many are kept; 100 at most */
  total: number;
}

/** an alert has fired */
export interface AlertEvent {
  /** which has fired */
  alertId: string;
  /** whose */
  sandboxId: string;
  /** what is looked at */
  metric: "cpu" | "memory" | "pids" | "disk" | OtherWord;
  /** percent of what the sandbox may use; of pids how many */
  threshold: number;
  /** what is done when it fires */
  action: "notify" | "pause" | "kill" | OtherWord;
  /** what it was then */
  value: number;
  /** Unix milliseconds */
  timestamp: number;
}

/** what runs in a sandbox */
export interface ProcessList {
  /** of the sandbox */
  processes: Process[];
}

/** a process of a sandbox */
export interface Process {
  /** in the sandbox */
  pid: number;
  /** name, or number when it has none */
  user: string;
  /** percent of a core over its whole life */
  cpu: string;
  /** percent of the sandbox's memory */
  memory: string;
  /** with its arguments */
  command: string;
}

/** a signal that was sent */
export interface ProcessKilled {
  /** its pid in the sandbox */
  killed: number;
  /** what it was sent */
  signal: "TERM" | "KILL" | "INT" | "HUP" | "USR1" | "USR2" | "STOP" | "CONT" | OtherWord;
}

/** what the processes of a sandbox use */
export interface ProcessTop {
  /** of the sandbox */
  processes: ProcessUsage[];
}

/** what a process uses */
export interface ProcessUsage {
  /** in the sandbox */
  pid: number;
  /** percent of a core over its whole life */
  cpu: string;
  /** percent of the sandbox's memory */
  mem: string;
  /** KiB of address space */
  vsz: number;
  /** KiB of memory */
  rss: number;
  /** with its arguments */
  command: string;
}

/** what a sandbox uses */
export interface Metrics {
  /** whose */
  sandboxId: string;
  /** of a core, since the last look */
  cpuPercent: number;
  /** MB in use */
  memoryUsageMb: number;
  /** MB that it may use */
  memoryLimitMb: number;
  /** received */
  networkRxBytes: number;
  /** sent */
  networkTxBytes: number;
  /** processes and threads */
  pids: number;
  /** time of processors since it was started */
  cpuTimeNs?: number;
  /** that came from disks, since it was started */
  diskReadBytes?: number;
  /** and that were written for them */
  diskWriteBytes?: number;
  /** of its own disk; absent when that cannot be looked at just now */
  diskUsedBytes?: number;
  /** that its disk can hold */
  diskLimitBytes?: number;
  /** Unix milliseconds; absent when it does not run */
  startedAt?: number;
}

/** counters of the daemon */
export interface GlobalMetrics {
  /** that run or are paused */
  activeSandboxes: number;
  /** whose disks are kept */
  stoppedSandboxes: number;
  /** how many there are */
  snapshots: number;
  /** how many there are */
  volumes: number;
  /** since the data folder is there */
  totalCreated: number;
  /** by a call */
  totalKilled: number;
  /** because their time was over */
  totalExpired: number;
  /** of the daemon */
  uptimeSeconds: number;
  /** where the disks are */
  diskFreeBytes: number;
  /** of these, what sandboxes do not get */
  diskReserveBytes: number;
  /** the sum of the sizes of all disks */
  diskPromisedBytes: number;
  /** so that those that write are paused */
  diskLow: boolean;
}

/** the daemon answers */
export interface Health {
  /** it answers */
  status: "healthy";
  /** of the daemon */
  version: string;
  /** what does not work and is being tried again, the oldest first; at most 100 */
  problems?: HealthProblem[];
}

/** what does not work now */
export interface HealthProblem {
  /** is tried again until it works */
  what: "disk_low" | "document_damaged" | "launcher_down" | "sandbox_not_removed" | "audit_not_written" | OtherWord;
  /** ms since 1970 */
  since: number;
  /** that have failed */
  attempts: number;
  /** what could not be taken away; for callers who may read */
  sandboxId?: string;
  /** why; for callers who may read */
  text?: string;
}

/** calls that have ended */
export interface Traces {
  /** newest first */
  traces: Trace[];
  /** how many match */
  total: number;
}

/** a call that has ended */
export interface Trace {
  /** of the trace */
  id: string;
  /** what was called */
  functionId: string;
  /** that it was about */
  sandboxId?: string;
  /** ms, from the request to its end */
  duration: number;
  /** how it ended */
  status: "ok" | "error" | OtherWord;
  /** why it failed */
  error?: string;
  /** the same as a word */
  code?: string;
  /** when it ended */
  timestamp: number;
  /** who called */
  caller: string;
  /** by which way */
  face: string;
  /** the caller's, if it sent a traceparent header */
  traceId: string;
  /** of this call */
  spanId: string;
  /** of the caller's, if it sent one */
  parentSpanId?: string;
}

/** what all calls add up to */
export interface ObservabilityMetrics {
  /** since the data folder is there, or since the last clear */
  totalRequests: number;
  /** of these, how many failed */
  totalErrors: number;
  /** ms; streams count for none */
  avgDuration: number;
  /** ms: half of them took less */
  p50Duration: number;
  /** ms: 95 of 100 took less */
  p95Duration: number;
  /** ms: 99 of 100 took less */
  p99Duration: number;
  /** that run or are paused */
  activeSandboxes: number;
  /** how often each function was called */
  functionCounts: Record<string, unknown>;
  /** each, most called first */
  functions: FunctionMetrics[];
}

/** calls of one function */
export interface FunctionMetrics {
  /** what was called */
  functionId: string;
  /** how often */
  count: number;
  /** of these, how many failed */
  errors: number;
  /** ms; streams count for none */
  avgDuration: number;
  /** ms: half of them took less */
  p50Duration: number;
  /** ms: 95 of 100 took less */
  p95Duration: number;
  /** ms: 99 of 100 took less */
  p99Duration: number;
}

/** how many traces were removed */
export interface TracesCleared {
  /** how many were removed */
  cleared: number;
}

/** what a sandbox used lately */
export interface MetricsHistory {
  /** whose */
  sandboxId: string;
  /** seconds between two */
  interval: number;
  /** MB that it may use */
  memoryLimitMb: number;
  /** oldest first */
  samples: MetricsSample[];
}

/** what a sandbox used at one time */
export interface MetricsSample {
  /** when it was looked at */
  timestamp: number;
  /** of a core, since the one before */
  cpuPercent: number;
  /** MB in use */
  memoryUsageMb: number;
  /** processes and threads */
  pids: number;
  /** received until then */
  networkRxBytes: number;
  /** sent until then */
  networkTxBytes: number;
}

/** a line of the main process, or the end */
export interface LogEvent {
  /** which stream the line is of; end is the last event. Of sandboxes that an older cay made, stderr is stdout too */
  type: "stdout" | "stderr" | "end" | OtherWord;
  /** one line of text */
  data: string;
  /** when the process wrote it, in Unix milliseconds */
  timestamp: number;
}

/** the images of this machine */
export interface ImageList {
  /** on this machine */
  images: Image[];
}

/** a file system that sandboxes start from */
export interface Image {
  /** what it is called here */
  name: string;
  /** digest of its configuration, or host */
  id: string;
  /** in its registry; else empty */
  digest: string;
  /** where it came from */
  origin: string;
  /** whose programs it has */
  platform: string;
  /** where commands start; may be empty */
  workdir: string;
  /** who runs them; empty = root */
  user: string;
  /** ends its main process */
  stopSignal: string;
  /** bytes on disk */
  size: number;
  /** Unix milliseconds */
  createdAt: number;
  /** Unix milliseconds */
  pulledAt: number;
  /** Unix milliseconds; 0 = never */
  usedAt: number;
  /** how many */
  layers: number;
  /** a sandbox is made from it */
  inUse: boolean;
  /** NAME=VALUE */
  env: string[];
  /** of its main process */
  entrypoint: string[];
  /** follows the entrypoint */
  cmd: string[];
  /** as 8080/tcp */
  ports: string[];
  /** of its maker */
  labels: Record<string, string>;
  /** of a commit: which files the image does not have, and why; of an import: what its name stands for */
  warnings?: string[];
}

/** the short names of images */
export interface ImageCatalog {
  /** presets first */
  images: ImageShortName[];
}

/** a name and what it stands for */
export interface ImageShortName {
  /** short */
  name: string;
  /** what it stands for */
  reference: string;
  /** cay's own, or the operator's */
  kind: "preset" | "custom" | OtherWord;
}

/** what happens, then the image or an error */
export type PullEvent = ResolvingEvent | ResolvedEvent | LayerEvent | StoringEvent | DoneEvent | ErrorEvent;

/** an image is here */
export interface DoneEvent {
  /** the last one */
  event: "done";
  /** it is here */
  image: Image;
}

/** images that were not used */
export interface ImagePrune {
  /** that went, or would go */
  removed: Image[];
  /** that this frees */
  bytes: number;
  /** true when nothing went */
  dryRun: boolean;
}

/** an image that is gone */
export interface ImageDeleted {
  /** as it was asked for */
  deleted: string;
}

/** sandboxes whose time was over: removed, or about to stop */
export interface Sweep {
  /** how many were removed */
  swept: number;
}

/** what belongs to no sandbox */
export interface Strays {
  /** nothing is done about them unasked */
  strays: Stray[];
  /** that all of them take */
  bytes: number;
}

/** something that belongs to no sandbox */
export interface Stray {
  /** whose it was */
  id: string;
  /** of its disk on the host; empty when it has none */
  path: string;
  /** that the disk takes on the host */
  bytes: number;
  /** that still run */
  processes: number;
}

/** what this daemon is */
export interface Info {
  /** of the daemon */
  version: string;
  /** what runs sandboxes */
  runtime: string;
  /** what stands between a sandbox and the host */
  isolation: string;
  /** where files belong */
  workspace: string;
  /** what CAY_DEFAULT_IMAGE says; clients may offer it */
  defaultImage: string;
  /** what a sandbox can be given */
  limits: Limits;
}

/** what a sandbox can be given */
export interface Limits {
  /** MB */
  memoryMinMb: number;
  /** MB */
  memoryMaxMb: number;
  /** cores */
  cpuMin: number;
  /** cores */
  cpuMax: number;
  /** processes and threads */
  pidsMin: number;
  /** processes and threads */
  pidsMax: number;
  /** MB */
  diskMinMb: number;
  /** MB */
  diskMaxMb: number;
  /** seconds */
  timeoutMin: number;
  /** seconds; absent = any, and a sandbox may have no end (0) */
  timeoutMax?: number;
  /** at a time, without stopped ones */
  maxSandboxes: number;
  /** stopped ones; absent = any */
  maxStopped?: number;
  /** of a command that is waited for; absent = any */
  maxCommandSeconds?: number;
}

/** an OpenAPI 3.1 document */
export type OpenApi = Record<string, unknown>;

/** a machine with sandboxes */
export interface Worker {
  /** wrk_ and 24 hex digits: the same after a restart */
  workerId: string;
  /** of the machine */
  hostname: string;
  /** that run or are paused */
  activeSandboxes: number;
  /** whose disks are kept */
  stoppedSandboxes: number;
  /** how many there may be in all */
  maxSandboxes: number;
  /** of all cores of the machine, since the look before */
  cpuPercent: number;
  /** of the machine */
  cores: number;
  /** of the machine */
  memory: WorkerMemory;
  /** where the disks of sandboxes are */
  diskFreeMb: number;
  /** of cay */
  version: string;
  /** now, in Unix milliseconds */
  lastHeartbeat: number;
}

/** memory of a machine */
export interface WorkerMemory {
  /** of the machine */
  totalMb: number;
  /** that nothing uses, not even as a cache */
  freeMb: number;
}

/** the machines with sandboxes */
export interface WorkerList {
  /** this machine */
  workers: Worker[];
  /** how many answer */
  alive: number;
  /** how many do not */
  dead: number;
}

/** where another sandbox can be made */
export interface WorkerSelected {
  /** that has room */
  workerId: string;
}

/** what was done about machines that are gone */
export interface WorkersReaped {
  /** machines that did not answer */
  reaped: number;
  /** sandboxes of theirs that were taken over */
  reassigned: number;
  /** sandboxes of theirs that are lost */
  expired: number;
}

/** what was given to this machine */
export interface WorkersMigrated {
  /** sandboxes that had no machine yet */
  migrated: number;
}

/** what its sandboxes are made from */
export interface TemplateConfig {
  /** image to begin with */
  image: string;
  /** seconds that a sandbox lives, as in a create */
  timeout?: number;
  /** MB of memory */
  memory?: number;
  /** cores */
  cpu?: number;
  /** processes and threads at a time */
  pids?: number;
  /** MB of disk */
  disk?: number;
  /** what it may reach, as in a create */
  network?: boolean | string | NetworkPolicy;
  /** environment of every command, also of setup */
  env?: Record<string, string>;
  /** where commands start, also those of setup */
  workdir?: string;
  /** who runs commands: name, uid, or either with :group; setup runs as the image's user */
  user?: string;
  /** kept with each sandbox */
  metadata?: Record<string, string>;
  /** main process, as arguments */
  entrypoint?: string[];
  /** the image's own entrypoint and command are the main process */
  runEntrypoint?: boolean;
  /** written before setup */
  files?: TemplateFile[];
  /** commands that are run once; what they leave is kept as a layer */
  setup?: SetupCommand[];
  /** a command that must succeed in a new sandbox before the create answers; tried again until it does */
  ready?: string | string[];
  /** seconds that ready may take in all; 25 when absent */
  readyTimeout?: number;
}

/** a file that a template brings along */
export interface TemplateFile {
  /** where it is in the sandbox; not absolute: below workdir */
  path: string;
  /** text of the file; not told in lists */
  content?: string;
  /** in cay.json, in place of content: a file or folder beside it */
  source?: string;
  /** octal; 0644 when absent, or as the source */
  mode?: string;
  /** bytes, told in lists */
  size?: number;
}

/** a text for the shell, or a program with its arguments */
export type SetupCommand = string | string[];

/** what sandboxes are made from by one word */
export interface Template {
  /** tpl_ and 24 hex digits; tpl_ and the name of one that is built in */
  id: string;
  /** no other template has it */
  name: string;
  /** for people */
  description: string;
  /** what its sandboxes are made from */
  config: TemplateConfig;
  /** true when it is part of cay */
  builtin: boolean;
  /** Unix milliseconds */
  createdAt: number;
  /** absent when it has no files, setup or user, or was not built yet */
  build?: TemplateBuild;
}

/** what a template was built into */
export interface TemplateBuild {
  /** the image that files and setup have become */
  imageId: string;
  /** what the image's name meant then */
  baseId?: string;
  /** directory: it was built from a folder, and is built again from there */
  source: "config" | "directory" | OtherWord;
  /** Unix milliseconds */
  builtAt: number;
  /** of the build */
  durationMs?: number;
  /** of the build */
  steps?: number;
  /** bytes of the image */
  size?: number;
  /** true when nothing had to be done */
  cached?: boolean;
  /** true when the image's name means another image by now */
  stale?: boolean;
}

/** what a pull of the image and a build do, then the template or an error */
export type TemplateBuildEvent = ResolvingEvent | ResolvedEvent | LayerEvent | StoringEvent | BuildStepEvent | BuildOutputEvent | BuildStepDoneEvent | TemplateEvent | ErrorEvent;

/** a template is there */
export interface TemplateEvent {
  /** the last one */
  event: "template";
  /** it can be used */
  template: Template;
}

/** all templates */
export interface TemplateList {
  /** built-in ones first, then by age */
  templates: Template[];
}

/** a template is gone */
export interface TemplateDeleted {
  /** its id */
  deleted: string;
}

/** what the disk of a sandbox was at one moment */
export interface Snapshot {
  /** snap_ and 24 hex digits */
  id: string;
  /** the same as id */
  snapshotId: string;
  /** whose disk it was; that sandbox may be gone */
  sandboxId: string;
  /** for people; the id when none was given */
  name: string;
  /** of the image that it is */
  imageId: string;
  /** bytes that it takes beside what the sandbox was made from */
  size: number;
  /** Unix milliseconds */
  createdAt: number;
  /** of the sandbox, which clones get */
  config?: SandboxConfig;
  /** of the sandbox, which clones get */
  entrypoint?: string[];
  /** of the sandbox, which clones get */
  metadata?: Record<string, string>;
  /** of the caller */
  labels?: Record<string, string>;
  /** of a new one: which files it does not have, and why */
  warnings?: string[];
}

/** snapshots */
export interface SnapshotList {
  /** the oldest first */
  snapshots: Snapshot[];
}

/** a snapshot is gone */
export interface SnapshotDeleted {
  /** its id */
  deleted: string;
}

/** what a sandbox changed */
export interface Diff {
  /** by path */
  changes: Change[];
  /** true when there are more */
  truncated: boolean;
}

/** of one path */
export interface Change {
  /** added, modified or deleted */
  kind: "A" | "M" | "D" | OtherWord;
  /** in the sandbox */
  path: string;
  /** what it is */
  type: "file" | "directory" | "symlink" | "other" | OtherWord;
  /** bytes of a file */
  size: number;
}

/** clones of one sandbox */
export interface Fork {
  /** the new ones */
  sandboxes: SandboxInfo[];
}

/** a folder that outlives sandboxes */
export interface Volume {
  /** vol_ and 24 hex digits */
  id: string;
  /** for people; may repeat */
  name: string;
  /** the id, for clients that want it */
  dockerVolumeName: string;
  /** of the first that has it */
  mountPath?: string;
  /** the first that has it */
  sandboxId?: string;
  /** sizeBytes as a text, which is what public clients take */
  size: string;
  /** bytes that it can hold, with what the filesystem needs for itself */
  sizeBytes: number;
  /** what it takes on the host's disk */
  usedBytes: number;
  /** Unix milliseconds */
  createdAt: number;
  /** who has it, the oldest first */
  attachments: VolumeAttachment[];
}

/** a sandbox that has a volume */
export interface VolumeAttachment {
  /** who has it */
  sandboxId: string;
  /** where */
  mountPath: string;
  /** nothing can be written there */
  readOnly: boolean;
}

/** all of them */
export interface VolumeList {
  /** the oldest first */
  volumes: Volume[];
}

/** it is gone, with all that was in it */
export interface VolumeDeleted {
  /** its id */
  deleted: string;
}

/** it is mounted */
export interface VolumeAttached {
  /** always true */
  attached: boolean;
  /** where it is in the sandbox */
  mountPath: string;
  /** who has it now */
  sandboxId: string;
  /** what */
  volumeId: string;
}

/** it is not mounted any more */
export interface VolumeDetached {
  /** always true */
  detached: boolean;
  /** who had it */
  sandboxId: string;
  /** what */
  volumeId: string;
  /** where it was */
  mountPath: string;
}

/** a command on a terminal, with or without viewers */
export interface Terminal {
  /** term_ and 24 hex digits */
  sessionId: string;
  /** where it is */
  sandboxId: string;
  /** the command on it */
  execId: string;
  /** absent when it is not known */
  cols?: number;
  /** absent when it is not known */
  rows?: number;
  /** how the command begins */
  shell: string;
  /** exited once the command has ended */
  status: "running" | "exited" | OtherWord;
  /** the runtime */
  backend: string;
  /** Unix milliseconds */
  createdAt: number;
  /** of a new one: it is recorded */
  recorded?: boolean;
  /** of a new one */
  channel?: Channel;
  /** once it has ended */
  finishedAt?: number;
  /** once it has ended */
  exitCode?: number;
  /** why it ended */
  reason?: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
}

/** a terminal's two ends, each for the first who comes within five minutes */
export interface Channel {
  /** takes what is typed */
  writer: ChannelEnd;
  /** gives what is shown */
  reader: ChannelEnd;
}

/** one end of a channel */
export interface ChannelEnd {
  /** for /ws/channels/… */
  channel_id: string;
  /** for ?key= */
  access_key: string;
  /** for ?dir= */
  direction: "read" | "write" | OtherWord;
}

/** terminals of a sandbox */
export interface TerminalList {
  /** the newest first */
  sessions: Terminal[];
}

/** its new size */
export interface TerminalSize {
  /** as it is now */
  cols: number;
  /** as it is now */
  rows: number;
}

/** it has ended */
export interface TerminalClosed {
  /** the session */
  closed: string;
}

/** how the command on a terminal ended */
export interface TerminalExit {
  /** the last message */
  type: "exit";
  /** 128 and the signal's number after a signal */
  exitCode: number;
  /** why it ended */
  reason: "exit" | "signal" | "oom" | "timeout" | "cancelled" | "lost" | OtherWord;
  /** true when the kernel killed for lack of memory while it ran */
  oom?: boolean;
  /** how it ended, in words; absent when it ended by itself */
  message?: string;
}

/** a text message of a terminal's WebSocket */
export interface TerminalEvent {
  /** ready is the first; lost: not all of what was shown before is kept; error: a Close follows */
  type: "ready" | "lost" | "error" | OtherWord;
  /** of ready */
  sessionId?: string;
  /** of the next byte: each byte that comes adds one */
  cursor?: number;
  /** of ready: what is sent is not taken */
  readOnly?: boolean;
  /** of lost: how many */
  bytes?: number;
  /** of error: in words */
  error?: string;
  /** of error: a stable word */
  code?: string;
}

/** how full the pool is */
export interface PoolStatus {
  /** how many are to be ready */
  total: number;
  /** how many are */
  ready: number;
  /** how many are ready, by IMAGE:MEMORY:CPU:NETWORK; empty for who has no token */
  by_profile: Record<string, unknown>;
  /** each with what it lacks; not for who has no token */
  profiles?: PoolProfile[];
}

/** a kind of sandbox that the pool has ready */
export interface PoolProfile {
  /** to remove it by; those of the configuration have none */
  id?: string;
  /** what its sandboxes are made from */
  image?: string;
  /** in place of an image */
  template?: string;
  /** MB */
  memory: number;
  /** cores */
  cpu: number;
  /** processes and threads */
  pids: number;
  /** MB */
  disk: number;
  /** what they may reach */
  network: boolean | string | NetworkPolicy;
  /** what has started in them already */
  interpreter?: PoolInterpreter;
  /** how many are to be ready */
  size: number;
  /** how many are */
  ready: number;
  /** where it comes from */
  source: "config" | "api" | OtherWord;
  /** why the last one could not be made; it is tried again */
  error?: string;
}

/** an interpreter that waits in a box */
export interface PoolInterpreter {
  /** python */
  language?: string;
  /** modules that it has loaded */
  imports?: string[];
}

/** what the pool has ready */
export interface PoolProfiles {
  /** those of the configuration, then those that were added */
  profiles: PoolProfile[];
}

/** what a server in a sandbox answered */
export interface ProxyAnswer {
  /** of the server in the sandbox */
  statusCode: number;
  /** names in lower case; of a name that came twice the values, with commas */
  headers: Record<string, string>;
  /** as text; what is no UTF-8 becomes U+FFFD */
  body: string;
  /** what was asked for, as the sandbox sees it */
  url: string;
}

/** how requests are passed on to a sandbox */
export interface ProxyConfig {
  /** its id */
  sandboxId: string;
  /** a port and a path behind this lead to it */
  proxyBase: string;
  /** for browsers, with a number in place of {port} */
  url: string;
  /** origins whose pages may read answers */
  cors: string;
  /** is a token or a signature always needed? */
  requireAuth: boolean;
  /** ms until the head of an answer must come */
  timeout: number;
}

/** an address that opens one port for a while */
export interface ProxySigned {
  /** opens the port to whoever has it */
  url: string;
  /** the same at the address of the API */
  path: string;
  /** until then */
  expiresAt: number;
}

/** sandboxes that see each other */
export interface Network {
  /** net_ and 24 hex digits */
  id: string;
  /** no other network has it */
  name: string;
  /** the id, for clients that want it */
  dockerNetworkId: string;
  /** ids of those in it, the oldest first */
  sandboxes: string[];
  /** Unix milliseconds */
  createdAt: number;
}

/** all of them */
export interface NetworkList {
  /** the oldest first */
  networks: Network[];
}

/** it is in the network */
export interface NetworkConnected {
  /** always true */
  connected: boolean;
}

/** it is not in the network any more */
export interface NetworkDisconnected {
  /** always true */
  disconnected: boolean;
}

/** it is gone */
export interface NetworkDeleted {
  /** its id */
  deleted: string;
}

/** a port of a sandbox on the host */
export interface Port {
  /** in the sandbox */
  containerPort: number;
  /** on the host */
  hostPort: number;
  /** tcp or udp */
  protocol: "tcp" | "udp" | OtherWord;
  /** of the host */
  hostAddress: string;
  /** active = the host listens; mapped = not now: the sandbox is stopped, or reason says why */
  state: "active" | "mapped" | OtherWord;
  /** why the host does not let it listen */
  reason?: string;
}

/** all of a sandbox */
export interface PortList {
  /** in the order in which they were exposed */
  ports: Port[];
}

/** it cannot be reached any more */
export interface PortRemoved {
  /** containerPort */
  removed: number;
}

/** events */
export interface EventList {
  /** the newest first */
  events: Event[];
  /** how many there are with these filters */
  total: number;
}

/** something that happened */
export interface Event {
  /** ids sort as events happened */
  id: string;
  /** what happened */
  topic: string;
  /** to which sandbox; empty when to none */
  sandboxId: string;
  /** what there is to say about it, by topic */
  data: Record<string, unknown>;
  /** when, in Unix milliseconds */
  timestamp: number;
  /** by a caller; the daemon's own do not have this */
  published?: boolean;
}

/** who may call, for what */
export interface Token {
  /** to revoke it by */
  id: string;
  /** what it is for; its id if it has none */
  name: string;
  /** what it may: read, exec, write; admin is all of it and the daemon itself */
  scopes: string[];
  /** the only sandbox that it is for */
  sandboxId?: string;
  /** it is only for sandboxes whose metadata has this, and those that it makes have it */
  label?: Record<string, string>;
  /** Unix milliseconds */
  createdAt: number;
  /** who made it */
  createdBy: string;
  /** Unix milliseconds; absent = it does not */
  expiresAt?: number;
  /** that time has come */
  expired?: boolean;
  /** Unix milliseconds; of the time since the daemon started */
  lastUsedAt?: number;
  /** what is sent as Authorization: Bearer; told once, to who makes it */
  token?: string;
  /** why tokens may keep nobody out */
  warning?: string;
}

/** tokens */
export interface TokenList {
  /** the newest first */
  tokens: Token[];
  /** why tokens may keep nobody out */
  warning?: string;
}

/** a webhook and its secret */
export interface WebhookMade {
  /** wh_ and 24 hex digits */
  id: string;
  /** where events are sent */
  url: string;
  /** of which events */
  topics: string[];
  /** of which sandbox; null = of all */
  sandboxId: string | null;
  /** whether anything is sent; else events wait */
  active: boolean;
  /** Unix milliseconds */
  createdAt: number;
  /** attempts in a row that failed; 0 = it takes what it is sent */
  failures: number;
  /** HTTP status of the last attempt; null = there was no answer */
  lastStatus: number | null;
  /** why there was no answer, as in deliveries */
  lastError: string | null;
  /** Unix milliseconds; null = nothing was sent yet */
  lastAttemptAt: number | null;
  /** when it is tried again, after a failure */
  nextAttemptAt: number | null;
  /** what messages are signed with; it is not shown again */
  secret: string;
}

/** all of them */
export interface WebhookList {
  /** the oldest first */
  webhooks: Webhook[];
}

/** who is told of events by HTTP */
export interface Webhook {
  /** wh_ and 24 hex digits */
  id: string;
  /** where events are sent */
  url: string;
  /** of which events */
  topics: string[];
  /** of which sandbox; null = of all */
  sandboxId: string | null;
  /** whether anything is sent; else events wait */
  active: boolean;
  /** Unix milliseconds */
  createdAt: number;
  /** attempts in a row that failed; 0 = it takes what it is sent */
  failures: number;
  /** HTTP status of the last attempt; null = there was no answer */
  lastStatus: number | null;
  /** why there was no answer, as in deliveries */
  lastError: string | null;
  /** Unix milliseconds; null = nothing was sent yet */
  lastAttemptAt: number | null;
  /** when it is tried again, after a failure */
  nextAttemptAt: number | null;
}

/** it is gone */
export interface WebhookDeleted {
  /** its id */
  deleted: string;
}

/** an event on its way to a webhook */
export interface Delivery {
  /** X-Cay-Delivery: the same for all attempts */
  id: string;
  /** of what */
  eventId: string;
  /** of what */
  topic: string;
  /** failed: it is not tried again */
  state: "retrying" | "delivered" | "failed" | OtherWord;
  /** how often it was tried */
  attempts: number;
  /** HTTP status of the last attempt; null = there was no answer */
  status: number | null;
  /** why there was none: refused (an address that may not be called), no_name, no_connection, no_trust, timeout, broken, bad_url, died */
  error: string | null;
  /** the same for people */
  message: string | null;
  /** that was called or refused */
  address: string | null;
  /** milliseconds of the last attempt */
  duration: number;
  /** of the last attempt, in Unix milliseconds */
  timestamp: number;
  /** of one that is retrying */
  nextAttemptAt: number | null;
}

/** what was sent to a webhook */
export interface DeliveryList {
  /** the newest first */
  deliveries: Delivery[];
}

/** who did what */
export interface AuditList {
  /** the oldest first */
  entries: AuditEntry[];
  /** number of the newest line */
  n: number;
  /** of the newest line */
  hash: string;
}

/** a line of the audit log */
export interface AuditEntry {
  /** number of the line */
  n: number;
  /** Unix milliseconds */
  time: number;
  /** root, admin (CAY_AUTH_TOKEN), anyone, uid:N, or the id of a token */
  who?: string;
  /** by which way */
  face?: string;
  /** its address */
  from?: string;
  /** what was called; daemon.started and the like are no calls */
  function: string;
  /** that it was about */
  sandboxId?: string;
  /** how it ended */
  result: "ok" | "refused" | "failed" | OtherWord;
  /** why it was not ok */
  code?: string;
  /** that it took */
  ms?: number;
  /** what was asked, without secrets */
  detail?: Record<string, unknown>;
  /** hash of the line before */
  prev: string;
  /** of this line */
  hash: string;
}

/** whether the audit log is whole */
export interface AuditReport {
  /** no line was changed, removed, put in or appended by another */
  ok: boolean;
  /** lines that were read and are right */
  entries: number;
  /** number of the oldest line that is kept */
  firstN: number;
  /** number of the newest line */
  n: number;
  /** of the newest line: keep it elsewhere, and ask for it later */
  hash: string;
  /** how many there are */
  files: number;
  /** the first thing wrong */
  problem?: string;
  /** where */
  file?: string;
  /** in that file */
  line?: number;
  /** up to which all is right */
  lastGoodN?: number;
  /** whether the line of the head that was given is there */
  headFound?: boolean;
  /** why it is not there */
  headProblem?: string;
}

/** any failure */
export interface ErrorBody {
  /** what was wrong and what to do */
  error: string;
  /** a stable word for programs; each operation lists its own */
  code: string;
  /** of command_timeout: of the command */
  execId?: string;
  /** of command_timeout 124; of template_not_ready the command's */
  exitCode?: number;
  /** of command_timeout: what it printed */
  stdout?: string;
  /** of command_timeout: what it printed */
  stderr?: string;
  /** of command_timeout: there was more output than is kept */
  truncated?: boolean;
  /** of a build: the step that failed */
  command?: string;
  /** of a build and of template_not_ready: the last lines of the command's output */
  output?: string;
  /** of a command that could not be started: why */
  kind?: "not_found" | "permission_denied" | "not_executable" | "bad_cwd" | "bad_args" | "resource_limit" | "user_setup_failed" | "out_of_memory" | OtherWord;
  /** of a command that could not be started: what was being done */
  stage?: "fork" | "user" | "rlimit" | "cwd" | "exec" | OtherWord;
  /** of a command that could not be started: what the kernel said, if it did */
  errno?: number;
  /** the same as a word: ENOENT */
  errnoName?: string;
  /** of volume_busy: who has files of it open, 16 at most */
  processes?: VolumeHolder[];
}

/** a process that uses a volume */
export interface VolumeHolder {
  /** as the sandbox knows it */
  pid: number;
  /** its command line */
  command: string;
  /** what it has open, or is in */
  path: string;
}

/** What sandbox_create takes: Makes a sandbox and starts it. */
export interface SandboxCreateInput {
  /** image to run: a reference (python:3.12-slim), a short name of /images/catalog, or host; required without a template, whose own counts even when python:3.12-slim is sent, as clients do that were told of none */
  image?: string | undefined;
  /** to use in place of the id; the id when absent; another type is ignored with a warning */
  name?: string | undefined;
  /** fail with name_taken when another sandbox has that name; else it can be shared. An expired one that the caller may remove is removed, and a warning says so */
  unique?: boolean | undefined;
  /** seconds until it expires (default CAY_DEFAULT_TIMEOUT); moved to the nearer end of 60 to CAY_MAX_TIMEOUT. Where that is 0 there is no upper end, and 0 = never; another type is ignored with a warning */
  timeout?: number | undefined;
  /** what happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove */
  onTimeout?: "remove" | "stop" | undefined;
  /** seconds without any use until it is stopped, for the reason idle; 0 or absent = it is not. Commands, calls on files and processes, traffic of ports and touch are use; moved to the nearer end of 0 to 315360000 */
  idleTimeout?: number | undefined;
  /** MB of memory (default CAY_DEFAULT_MEMORY); moved to the nearer end of 64 to CAY_MAX_MEMORY; another type is ignored with a warning */
  memory?: number | undefined;
  /** cores (default CAY_DEFAULT_CPU); moved to the nearer end of 0.5 to CAY_MAX_CPU; another type is ignored with a warning */
  cpu?: number | undefined;
  /** processes and threads at a time (default CAY_DEFAULT_PIDS); moved to the nearer end of 16 to CAY_MAX_PIDS */
  pids?: number | undefined;
  /** MB of disk (default CAY_DEFAULT_DISK); moved to the nearer end of 64 to 1048576 */
  disk?: number | undefined;
  /** what it may reach: false (the default) nothing, true the public internet, else a preset (none, public, packages, allow-all) or a policy; another type is ignored with a warning */
  network?: boolean | string | NetworkPolicy | undefined;
  /** names or ids of networks to connect it to */
  networks?: string[] | undefined;
  /** environment of every command; another type is ignored with a warning */
  env?: Record<string, string> | undefined;
  /** where commands start; else where the image says, else the workspace; another type is ignored with a warning */
  workdir?: string | undefined;
  /** kept with the sandbox, for the caller; another type is ignored with a warning */
  metadata?: Record<string, string> | undefined;
  /** main process, as arguments; another type is ignored with a warning */
  entrypoint?: string[] | undefined;
  /** the image's own entrypoint and command are the main process */
  runEntrypoint?: boolean | undefined;
  /** volumes and folders of the host to mount */
  volumes?: VolumeMount[] | undefined;
  /** folders in memory, which count as the sandbox's */
  tmpfs?: TmpfsMount[] | undefined;
  /** ports of it to reach on the host */
  ports?: PortRequest[] | undefined;
  /** changes to its files before anything runs, in this order: at most 1000 with 16 MiB of content; when one cannot be made there is no sandbox */
  patches?: Patch[] | undefined;
  /** when to pull the image (default CAY_PULL_POLICY) */
  pull?: "missing" | "always" | "never" | undefined;
  /** as linux/arm64; this machine's when absent */
  platform?: string | undefined;
  /** for the image's registry; else the daemon's own */
  registry_auth?: RegistryAuth | undefined;
  /** id or name of a template: what is not sent here is taken from it; another type is ignored with a warning */
  template?: string | undefined;
}

/** What sandbox_list takes: Lists sandboxes, the newest first. */
export interface SandboxListInput {
  /** only those with this status; expired = stopped because their time was over */
  status?: "creating" | "running" | "paused" | "stopped" | "expired" | undefined;
  /** only those with all of these entries */
  metadata?: Record<string, string> | undefined;
  /** counted from 1 */
  page?: number | undefined;
  /** sandboxes on a page */
  pageSize?: number | undefined;
  /** nextCursor of the page before, in place of page: none is missed or repeated while others come and go */
  cursor?: number | undefined;
}

/** What sandbox_get takes: Shows a sandbox. */
export interface SandboxGetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_update takes: Changes a sandbox; what is not sent stays. Limits hold at once, and programs are told of them with the next start. */
export interface SandboxUpdateInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in place of what it has */
  metadata?: Record<string, string> | undefined;
  /** environment of commands, in place of what it was given */
  env?: Record<string, string> | undefined;
  /** MB, in the range of a create */
  memory?: number | undefined;
  /** cores, in the range of a create */
  cpu?: number | undefined;
  /** processes and threads at a time, in the range of a create */
  pids?: number | undefined;
  /** seconds until it expires, from now and from each start; in the range of a create */
  timeout?: number | undefined;
  /** seconds without use until it is stopped; 0 = it is not; moved to the nearer end of 0 to 315360000 */
  idleTimeout?: number | undefined;
}

/** What sandbox_kill takes: Ends a sandbox and removes it. */
export interface SandboxKillInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_pause takes: Freezes every process of a sandbox. */
export interface SandboxPauseInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_resume takes: Lets a paused sandbox go on. */
export interface SandboxResumeInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_stop takes: Ends every process of a sandbox and keeps its files; nothing happens to one that is stopped. It expires after CAY_STOPPED_TTL. */
export interface SandboxStopInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** commands that run may come to their end first; new ones are refused from now on */
  drain?: boolean | undefined;
  /** seconds: with drain, how long commands may go on, as long as they take when 0 or absent; else how long the entrypoint may take to end, 2 when absent; moved to the nearer end of 0 to 86400 */
  timeout?: number | undefined;
  /** answer when it has stopped; so it is without drain, with drain the answer comes at once */
  wait?: boolean | undefined;
}

/** What sandbox_start takes: Starts a stopped sandbox again, with its files, environment and entrypoint; nothing happens to one that runs. It expires after its timeout. */
export interface SandboxStartInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_touch takes: Says that a sandbox is in use, so that it is not idle. */
export interface SandboxTouchInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_renew takes: Sets when a sandbox expires. */
export interface SandboxRenewInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** Unix milliseconds; moved to the nearer end of 60 seconds to CAY_MAX_TIMEOUT from now. Where that is 0 there is no upper end, and 0 = never */
  expiresAt: number;
}

/** What sandbox_network takes: Shows what a sandbox may reach, its addresses and what it was refused. */
export interface SandboxNetworkInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What sandbox_network_set takes: Changes what a sandbox may reach, also while it is paused or stopped; connections that are no longer allowed are cut. */
export interface SandboxNetworkSetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** as in a create: false nothing, true the public internet, a preset or a policy */
  network: boolean | string | Record<string, unknown>;
}

/** What sandbox_network_explain takes: Tells what would happen to a connection, and why. */
export interface SandboxNetworkExplainInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a name or an address */
  host: string;
  /** there */
  port?: number | undefined;
  /** of it */
  protocol?: "tcp" | "udp" | "icmp" | undefined;
}

/** What sandbox_network_explain_post takes: Tells what would happen to a connection, and why. */
export interface SandboxNetworkExplainPostInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a name or an address */
  host: string;
  /** there */
  port?: number | undefined;
  /** of it */
  protocol?: "tcp" | "udp" | "icmp" | undefined;
}

/** What sandbox_network_log takes: Lists what a sandbox was refused. */
export interface SandboxNetworkLogInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** `next` of the answer before */
  after?: number | undefined;
  /** at most so many, the newest */
  limit?: number | undefined;
}

/** What stream_network takes: Streams what a sandbox is refused, until it is removed. */
export interface StreamNetworkInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** how many of the last lines to begin with */
  tail?: number | undefined;
}

/** What cmd_run takes: Runs a command and waits for it. */
export interface CmdRunInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a string for the shell, or an array of arguments run as it is */
  command: string | string[];
  /** where it starts; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** limits of its process, each resource once */
  rlimits?: Rlimit[] | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it */
  timeout?: number | undefined;
  /** its whole input, at most 1 MiB; none when absent */
  stdin?: string | undefined;
  /** base64 for bytes that are no text; utf8 */
  stdinEncoding?: "utf8" | "base64" | undefined;
  /** it goes on when the caller hangs up, which else ends it */
  detach?: boolean | undefined;
  /** by which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent */
  execId?: string | undefined;
}

/** What cmd_list takes: Lists commands that run, and the last that ended. */
export interface CmdListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What cmd_run_stream takes: Runs a command and streams its output. */
export interface CmdRunStreamInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a string for the shell, or an array of arguments run as it is */
  command: string | string[];
  /** where it starts; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** limits of its process, each resource once */
  rlimits?: Rlimit[] | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it */
  timeout?: number | undefined;
  /** its whole input, at most 1 MiB; none when absent */
  stdin?: string | undefined;
  /** base64 for bytes that are no text; utf8 */
  stdinEncoding?: "utf8" | "base64" | undefined;
  /** it goes on when the caller hangs up, which else ends it */
  detach?: boolean | undefined;
  /** by which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent */
  execId?: string | undefined;
}

/** What cmd_attach takes: Runs a command with input, output and signals over an upgraded connection. */
export interface CmdAttachInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a string for the shell, or an array of arguments run as it is */
  command: string | string[];
  /** where it starts; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** limits of its process, each resource once */
  rlimits?: Rlimit[] | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = none */
  timeout?: number | undefined;
  /** run on a terminal; output is then one stream */
  tty?: boolean | undefined;
  /** STDIN frames will come */
  stdin?: boolean | undefined;
  /** of the terminal */
  rows?: number | undefined;
  /** of the terminal */
  cols?: number | undefined;
  /** it goes on when the caller hangs up, which else ends it */
  detach?: boolean | undefined;
  /** by which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent */
  execId?: string | undefined;
}

/** What cmd_background takes: Starts a command and leaves it running. */
export interface CmdBackgroundInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a string for the shell, or an array of arguments run as it is */
  command: string | string[];
  /** where it starts; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** limits of its process, each resource once */
  rlimits?: Rlimit[] | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = none */
  timeout?: number | undefined;
  /** its whole input, at most 1 MiB; none when absent */
  stdin?: string | undefined;
  /** base64 for bytes that are no text; utf8 */
  stdinEncoding?: "utf8" | "base64" | undefined;
}

/** What cmd_background_status takes: Shows a background command; also while the sandbox is paused. */
export interface CmdBackgroundStatusInput {
  /** id of a command; bg_ of one in the background */
  execId: string;
}

/** What cmd_background_logs takes: Reads the output of a background command; also while the sandbox is paused. */
export interface CmdBackgroundLogsInput {
  /** id of a command; bg_ of one in the background */
  execId: string;
  /** byte offset to read from: 0, then the cursor of the last answer */
  cursor?: number | undefined;
}

/** What cmd_get takes: Shows a command and what it has put out. */
export interface CmdGetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a command; bg_ of one in the background */
  execId: string;
  /** where to begin: 0, or a cursor that was told */
  cursor?: number | undefined;
}

/** What cmd_get_stream takes: Streams what a command puts out, from a cursor on. */
export interface CmdGetStreamInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a command; bg_ of one in the background */
  execId: string;
  /** where to begin: 0, or a cursor that was told */
  cursor?: number | undefined;
}

/** What cmd_get_attach takes: Attaches to a command that runs, over an upgraded connection. */
export interface CmdGetAttachInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a command; bg_ of one in the background */
  execId: string;
  /** where to begin: 0, or a cursor that was told */
  cursor?: number | undefined;
  /** take over its input; false reads along */
  stdin?: boolean | undefined;
  /** its input beside others who share it */
  share?: boolean | undefined;
  /** of the terminal */
  rows?: number | undefined;
  /** of the terminal */
  cols?: number | undefined;
}

/** What cmd_kill takes: Ends a command and all that it started. */
export interface CmdKillInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a command; bg_ of one in the background */
  execId: string;
}

/** What cmd_interrupt takes: Sends SIGINT to a command or to all; to a paused sandbox as well, for when it goes on. */
export interface CmdInterruptInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in the sandbox: of a command, which is interrupted with all that it has started, or of one process; every running command when absent */
  pid?: number | undefined;
}

/** What fs_read takes: Reads a file as text. */
export interface FsReadInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** bytes to pass over; past the end there is nothing */
  offset?: number | undefined;
  /** the most bytes; to the end when absent */
  limit?: number | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_write takes: Replaces a file with text; parents are made. */
export interface FsWriteInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** text */
  content: string;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_delete takes: Removes a file; fine if it is gone. */
export interface FsDeleteInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_list takes: Lists a directory. */
export interface FsListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** the workspace when absent */
  path?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_search takes: Finds regular files by name, in all folders below. */
export interface FsSearchInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** glob on the base name, without ; | $ ` \ */
  pattern: string;
  /** the workspace when absent */
  dir?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_upload takes: Replaces a file with bytes; a stream has no size limit but the sandbox's disk. */
export interface FsUploadInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** octal digits; kept when absent, 0644 for a new file */
  mode?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
  /** base64; or send the bytes as application/octet-stream and the rest in the query */
  content?: string | undefined;
}

/** What fs_download takes: Reads a file's bytes; with Accept: application/octet-stream as they are. */
export interface FsDownloadInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** bytes to pass over; past the end there is nothing */
  offset?: number | undefined;
  /** the most bytes; to the end when absent */
  limit?: number | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_info takes: Shows what paths are. */
export interface FsInfoInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** one or more paths */
  paths?: string[] | undefined;
  /** instead of paths: one */
  path?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_move takes: Moves as mv does: onto a directory means into it, and a directory replaces nothing; stops at the first failure. */
export interface FsMoveInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** done in order */
  moves: FileMove[];
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_copy takes: Copies a file, or a directory with all that is in it, with modes, owners and times. */
export interface FsCopyInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a file, or a directory with all that is in it */
  from: string;
  /** what the copy is called; parents are made */
  to: string;
  /** what is there goes; else that is a conflict */
  replace?: boolean | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_symlink takes: Makes a symbolic link; parents are made. */
export interface FsSymlinkInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** what the link says; it need not be there */
  target: string;
  /** what is there goes; else that is a conflict */
  replace?: boolean | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_mkdir takes: Makes directories and their parents. */
export interface FsMkdirInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** one or more paths */
  paths?: string[] | undefined;
  /** instead of paths: one */
  path?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_rmdir takes: Removes directories and what is in them. */
export interface FsRmdirInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** one or more paths */
  paths?: string[] | undefined;
  /** instead of paths: one */
  path?: string | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_chmod takes: Changes a file's mode. */
export interface FsChmodInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** absolute, or relative to the workspace */
  path: string;
  /** 3 or 4 octal digits, or one clause like u+x */
  mode: string;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What queue_submit takes: Puts a command into the queue, which runs it when its turn comes, also after a restart; while the sandbox is paused or stopped it waits. */
export interface QueueSubmitInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a string for the shell, or an array of arguments run as it is */
  command: string | string[];
  /** how often it is tried when it cannot be run or takes too long; at least once; moved to the nearer end of 0 to 100 */
  maxRetries?: number | undefined;
  /** seconds that a try may take; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it */
  timeout?: number | undefined;
  /** an exit code other than 0 is a failure, too */
  retryOnExit?: boolean | undefined;
  /** seconds before the second try; each further wait is twice as long, up to 300, and up to a half of it is left to chance; moved to the nearer end of 0 to 3600 */
  retryDelay?: number | undefined;
  /** of jobs that wait, the highest starts first; moved to the nearer end of -1000 to 1000 */
  priority?: number | undefined;
  /** seconds before which it does not start */
  delay?: number | undefined;
  /** Unix milliseconds before which it does not start; delay goes before it */
  runAt?: number | undefined;
  /** directory it starts in; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's variables */
  env?: Record<string, string> | undefined;
  /** name or uid[:group] it runs as */
  user?: string | undefined;
}

/** What queue_list takes: Lists jobs, the newest first. */
export interface QueueListInput {
  /** only of this sandbox */
  sandboxId?: string | undefined;
  /** only those that are so */
  status?: "pending" | "running" | "completed" | "failed" | "cancelled" | undefined;
  /** at most so many */
  limit?: number | undefined;
  /** leaves out so many */
  offset?: number | undefined;
}

/** What queue_status takes: Shows a job, and once it is over its result. */
export interface QueueStatusInput {
  /** id of a job */
  jobId: string;
}

/** What queue_logs takes: Gives what a job has put out, also while it runs. */
export interface QueueLogsInput {
  /** id of a job */
  jobId: string;
  /** where to read on */
  cursor?: number | undefined;
}

/** What queue_cancel takes: Takes a job out of the queue; one that runs is ended, with all that it started. */
export interface QueueCancelInput {
  /** id of a job */
  jobId: string;
}

/** What queue_dlq takes: Lists the jobs that failed: the dead letters. */
export interface QueueDlqInput {
  /** only of this sandbox */
  sandboxId?: string | undefined;
  /** at most so many */
  limit?: number | undefined;
  /** leaves out so many */
  offset?: number | undefined;
}

/** What queue_purge takes: Forgets the jobs that failed. */
export interface QueuePurgeInput {
  /** only of this sandbox */
  sandboxId?: string | undefined;
}

/** What queue_requeue takes: Puts a job that failed into the queue again, with all its tries. */
export interface QueueRequeueInput {
  /** id of a job */
  jobId: string;
}

/** What queue_forget takes: Forgets a job that failed. */
export interface QueueForgetInput {
  /** id of a job */
  jobId: string;
}

/** What fs_watch takes: Tells of changes to files as they happen. */
export interface FsWatchInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a directory or a file; the workspace when absent */
  path?: string | undefined;
  /** all directories below, too */
  recursive?: boolean | undefined;
  /** of create, write, remove, rename, chmod; all but chmod when absent */
  events?: ("create" | "write" | "remove" | "rename" | "chmod")[] | undefined;
  /** globs of names to leave out, with all that is below; at most 64 */
  ignore?: string[] | undefined;
  /** each change is also an event, file.changed; needs the scope exec */
  publish?: boolean | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What fs_watch_socket takes: Tells of changes to files as they happen, over a WebSocket. */
export interface FsWatchSocketInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a directory or a file; the workspace when absent */
  path?: string | undefined;
  /** all directories below, too */
  recursive?: boolean | undefined;
  /** of create, write, remove, rename, chmod; all but chmod when absent */
  events?: ("create" | "write" | "remove" | "rename" | "chmod")[] | undefined;
  /** globs of names to leave out, with all that is below; at most 64 */
  ignore?: string[] | undefined;
  /** each change is also an event, file.changed; needs the scope exec */
  publish?: boolean | undefined;
  /** also allow paths outside of the workspace */
  anywhere?: boolean | undefined;
  /** base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it */
  pathEncoding?: "utf8" | "base64" | undefined;
}

/** What interp_execute takes: Runs code and waits for it; what it prints and gives comes as events to who asks for them. */
export interface InterpExecuteInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** what to run */
  code: string;
  /** python, javascript, typescript, go or bash */
  language?: string | undefined;
  /** of the context that it runs in; a process of its own when absent. Its language, directory, environment and user are the context's */
  contextId?: string | undefined;
  /** where it runs; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it */
  timeout?: number | undefined;
}

/** What interp_install takes: Installs packages for a language, or of the system. */
export interface InterpInstallInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** as the manager takes them */
  packages: string[];
  /** pip, npm, go or apt, or a language: python, javascript, typescript, go, bash */
  manager?: string | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it */
  timeout?: number | undefined;
}

/** What interp_kernels takes: Lists the languages that this sandbox has. */
export interface InterpKernelsInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What interp_context_create takes: Starts an interpreter that keeps what code leaves in it. */
export interface InterpContextCreateInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** python or javascript */
  language?: string | undefined;
  /** where it runs; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** modules that it loads before it is ready */
  imports?: string[] | undefined;
  /** seconds without a run after which it ends itself; 0 or absent = with the sandbox */
  idleTimeout?: number | undefined;
}

/** What interp_context_list takes: Lists the contexts of a sandbox. */
export interface InterpContextListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What interp_context_get takes: Shows a context. */
export interface InterpContextGetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a context of the interpreter */
  contextId: string;
}

/** What interp_context_delete takes: Ends a context, with all that it started. */
export interface InterpContextDeleteInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a context of the interpreter */
  contextId: string;
}

/** What interp_context_restart takes: Ends a context and starts it anew, empty, with the same id and settings. */
export interface InterpContextRestartInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a context of the interpreter */
  contextId: string;
}

/** What interp_context_interrupt takes: Interrupts what a context runs, as Ctrl-C does; what it keeps stays. */
export interface InterpContextInterruptInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a context of the interpreter */
  contextId: string;
}

/** What env_get takes: Reads a variable of the environment. */
export interface EnvGetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** name of the variable */
  key: string;
}

/** What env_set takes: Sets variables for every later command. */
export interface EnvSetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** names and values */
  vars: Record<string, string>;
}

/** What env_list takes: Lists the environment of commands. */
export interface EnvListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What env_delete takes: Removes a variable. */
export interface EnvDeleteInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** name of the variable */
  key: string;
}

/** What git_clone takes: Clones a repository with the sandbox's git. */
export interface GitCloneInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; a password in it is used, and is not kept */
  url: string;
  /** where it shall be; a folder in the workspace, named after it, when absent */
  path?: string | undefined;
  /** or a tag; the server's own when absent */
  branch?: string | undefined;
  /** how many commits; 0 or absent = all */
  depth?: number | undefined;
  /** for the server; x-access-token when there is only a token */
  username?: string | undefined;
  /** for this call only: nothing of it is left in the sandbox */
  password?: string | undefined;
  /** in place of a password */
  token?: string | undefined;
  /** the same as one object */
  credentials?: GitCredentials | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT */
  timeout?: number | undefined;
}

/** What git_status takes: Shows what is not as in the last commit. */
export interface GitStatusInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
}

/** What git_commit takes: Makes a commit. */
export interface GitCommitInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the commit */
  message: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** stage every change first, new files too */
  all?: boolean | undefined;
  /** who commits; what git is configured with when absent */
  authorName?: string | undefined;
  /** who commits; what git is configured with when absent */
  authorEmail?: string | undefined;
}

/** What git_diff takes: Shows what has changed. */
export interface GitDiffInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** what a commit would have */
  staged?: boolean | undefined;
  /** only this file, or those that a pathspec of git names */
  file?: string | undefined;
}

/** What git_log takes: Lists the last commits. */
export interface GitLogInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** how many at most */
  count?: number | undefined;
}

/** What git_branch takes: Lists branches, makes one or deletes one. */
export interface GitBranchInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** make and check out this one; only list when absent */
  name?: string | undefined;
  /** delete it instead, if it is merged */
  delete?: boolean | undefined;
  /** delete it also when it is not */
  force?: boolean | undefined;
  /** where the new one begins; HEAD when absent */
  start?: string | undefined;
}

/** What git_checkout takes: Checks out a branch, a tag or a commit. */
export interface GitCheckoutInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** a branch, a tag or a commit */
  ref: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
}

/** What git_push takes: Pushes commits to a remote. */
export interface GitPushInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** name or URL; the branch's own when absent */
  remote?: string | undefined;
  /** or a refspec; as configured when absent */
  branch?: string | undefined;
  /** for the server; x-access-token when there is only a token */
  username?: string | undefined;
  /** for this call only: nothing of it is left in the sandbox */
  password?: string | undefined;
  /** in place of a password */
  token?: string | undefined;
  /** the same as one object */
  credentials?: GitCredentials | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT */
  timeout?: number | undefined;
  /** also when the server has other commits */
  force?: boolean | undefined;
  /** the branch follows it from now on */
  setUpstream?: boolean | undefined;
}

/** What git_pull takes: Takes commits from a remote. */
export interface GitPullInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the repository; the workspace when absent */
  path?: string | undefined;
  /** name or URL; the branch's own when absent */
  remote?: string | undefined;
  /** or a refspec; as configured when absent */
  branch?: string | undefined;
  /** for the server; x-access-token when there is only a token */
  username?: string | undefined;
  /** for this call only: nothing of it is left in the sandbox */
  password?: string | undefined;
  /** in place of a password */
  token?: string | undefined;
  /** the same as one object */
  credentials?: GitCredentials | undefined;
  /** seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT */
  timeout?: number | undefined;
  /** put own commits on top, in place of a merge */
  rebase?: boolean | undefined;
}

/** What monitor_set_alert takes: Sets a threshold for what a sandbox uses. */
export interface MonitorSetAlertInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** what is looked at; cpu, memory and disk are percent of what the sandbox may use */
  metric: "cpu" | "memory" | "pids" | "disk";
  /** 0 to 100; of pids how many processes and threads */
  threshold: number;
  /** notify: an event alert.fired, which webhooks get too; pause and kill do that as well */
  action?: "notify" | "pause" | "kill" | undefined;
}

/** What monitor_list_alerts takes: Lists the alerts of a sandbox. */
export interface MonitorListAlertsInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What monitor_delete_alert takes: Deletes an alert. */
export interface MonitorDeleteAlertInput {
  /** id of an alert */
  alertId: string;
}

/** What monitor_alert_history takes: Tells when alerts of a sandbox have fired. */
export interface MonitorAlertHistoryInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** how many at most */
  limit?: number | undefined;
}

/** What proc_list takes: Lists the processes of a sandbox. */
export interface ProcListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What proc_kill takes: Sends a signal; fine if the process is gone. */
export interface ProcKillInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in the sandbox */
  pid: number;
  /** what to send */
  signal?: "TERM" | "KILL" | "INT" | "HUP" | "USR1" | "USR2" | "STOP" | "CONT" | undefined;
}

/** What proc_top takes: Lists the processes with what they use. */
export interface ProcTopInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What metrics_sandbox takes: Shows what a sandbox uses. */
export interface MetricsSandboxInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What metrics_global takes: Shows counters of the daemon. */
export interface MetricsGlobalInput {
}

/** What metrics_health takes: Says that the daemon answers. */
export interface MetricsHealthInput {
}

/** What observability_traces takes: Lists calls that have ended, newest first. */
export interface ObservabilityTracesInput {
  /** only calls about this sandbox: its id, or its name while it is there */
  sandboxId?: string | undefined;
  /** only calls of this function */
  functionId?: string | undefined;
  /** only calls that ended so */
  status?: "ok" | "error" | undefined;
  /** only calls of this trace */
  traceId?: string | undefined;
  /** only calls that ended then or later: ms since 1970 */
  since?: number | undefined;
  /** how many at most */
  limit?: number | undefined;
  /** how many to leave out first */
  offset?: number | undefined;
}

/** What observability_metrics takes: Shows what all calls add up to: counts, failures, percentiles. */
export interface ObservabilityMetricsInput {
}

/** What observability_clear takes: Removes traces; counters of /metrics stay. */
export interface ObservabilityClearInput {
  /** those that ended before: ms since 1970; now when absent */
  before?: number | undefined;
}

/** What metrics_prometheus takes: Tells all metrics as text for Prometheus; also at /metrics without the prefix. */
export interface MetricsPrometheusInput {
}

/** What metrics_history takes: Shows what a sandbox used within the last hour. */
export interface MetricsHistoryInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** only what was seen then or later: ms since 1970 */
  since?: number | undefined;
}

/** What stream_logs takes: Streams the output of the main process, line by line. */
export interface StreamLogsInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** how many of the last lines to begin with */
  tail?: number | undefined;
  /** stay and send new lines */
  follow?: boolean | undefined;
}

/** What stream_metrics takes: Streams what a sandbox uses. */
export interface StreamMetricsInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** seconds between two events */
  interval?: number | undefined;
}

/** What image_list takes: Lists images. */
export interface ImageListInput {
}

/** What image_catalog takes: Lists the short names of images and what they stand for. */
export interface ImageCatalogInput {
}

/** What image_pull takes: Gets an image from its registry. */
export interface ImagePullInput {
  /** what to pull: python:3.12-slim, ghcr.io/team/app:1, or a name of the catalog */
  reference: string;
  /** what to call it here; as the reference when absent */
  name?: string | undefined;
  /** for the image's registry; else the daemon's own */
  registry_auth?: RegistryAuth | undefined;
  /** over plain http; only with a token or on the unix socket */
  insecure?: boolean | undefined;
  /** as linux/arm64; this machine's when absent */
  platform?: string | undefined;
  /** whether to look for a newer one */
  policy?: "missing" | "always" | "never" | undefined;
}

/** What image_import takes: Makes an image from a directory or an archive; only for root, on the unix socket. */
export interface ImageImportInput {
  /** on the daemon's machine: a root directory, a tar archive of one, what docker save or an export wrote, or an OCI layout */
  path: string;
  /** of the image; what the archive calls it when absent */
  name?: string | undefined;
}

/** What image_prune takes: Removes images that no sandbox uses. */
export interface ImagePruneInput {
  /** seconds: only those not used for that long; 0 or absent = any */
  unusedFor?: number | undefined;
  /** the least recently used, until the rest takes no more; 0 or absent = all */
  keepMb?: number | undefined;
  /** only tell what would go */
  dryRun?: boolean | undefined;
}

/** What image_get takes: Shows an image; / and : of its name are percent-encoded. */
export interface ImageGetInput {
  /** name or id of an image; its / and : are percent-encoded */
  name: string;
}

/** What image_remove takes: Removes an image that no sandbox uses. */
export interface ImageRemoveInput {
  /** name or id of an image; its / and : are percent-encoded */
  name: string;
}

/** What image_tag takes: Gives an image one more name. */
export interface ImageTagInput {
  /** name or id of an image; its / and : are percent-encoded */
  image: string;
  /** the new name */
  name: string;
}

/** What image_export takes: Gives an image as an OCI layout in a tar archive, which docker load takes too. */
export interface ImageExportInput {
  /** name or id of an image; its / and : are percent-encoded */
  name: string;
}

/** What image_commit takes: Makes an image of a sandbox as it is; one that runs stands still meanwhile. */
export interface ImageCommitInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the image */
  name: string;
  /** added to the image's */
  env?: Record<string, string> | undefined;
  /** where commands start */
  workdir?: string | undefined;
  /** who runs them: name, uid, or either with :group */
  user?: string | undefined;
  /** of the image */
  entrypoint?: string[] | undefined;
  /** of the image */
  cmd?: string[] | undefined;
  /** of the image */
  labels?: Record<string, string> | undefined;
}

/** What lifecycle_sweep takes: Removes expired sandboxes now. */
export interface LifecycleSweepInput {
}

/** What system_strays takes: Lists what is on this machine and belongs to no sandbox. */
export interface SystemStraysInput {
}

/** What system_stray_adopt takes: Makes a stopped sandbox of a disk that belongs to none. */
export interface SystemStrayAdoptInput {
  /** id of what belongs to no sandbox */
  strayId: string;
}

/** What system_stray_remove takes: Removes a disk that belongs to no sandbox. */
export interface SystemStrayRemoveInput {
  /** id of what belongs to no sandbox */
  strayId: string;
}

/** What system_info takes: Says what this daemon is. */
export interface SystemInfoInput {
}

/** What system_openapi takes: Gives this description; also outside of the prefix. */
export interface SystemOpenapiInput {
}

/** What worker_heartbeat takes: Shows this machine as it is now. */
export interface WorkerHeartbeatInput {
}

/** What worker_list takes: Lists the machines with sandboxes: this one. */
export interface WorkerListInput {
}

/** What worker_select takes: Says on which machine there is room for another sandbox. */
export interface WorkerSelectInput {
}

/** What worker_reap takes: Takes over what machines had that are gone: of one machine there are none. */
export interface WorkerReapInput {
}

/** What worker_migrate takes: Gives sandboxes without a machine to this one: all have it already. */
export interface WorkerMigrateInput {
}

/** What worker_heartbeat_too takes: Shows this machine as it is now. */
export interface WorkerHeartbeatTooInput {
}

/** What worker_list_too takes: Lists the machines with sandboxes: this one. */
export interface WorkerListTooInput {
}

/** What worker_select_too takes: Says on which machine there is room for another sandbox. */
export interface WorkerSelectTooInput {
}

/** What worker_select_get takes: Says on which machine there is room for another sandbox. */
export interface WorkerSelectGetInput {
}

/** What worker_reap_too takes: Takes over what machines had that are gone: of one machine there are none. */
export interface WorkerReapTooInput {
}

/** What worker_migrate_too takes: Gives sandboxes without a machine to this one: all have it already. */
export interface WorkerMigrateTooInput {
}

/** What template_create takes: Makes a template; with setup it is built first. */
export interface TemplateCreateInput {
  /** to use in place of the id; no other template has it */
  name: string;
  /** for people */
  description?: string | undefined;
  /** what its sandboxes are made from */
  config: TemplateConfig;
  /** run setup now; else when the template is first used */
  build?: boolean | undefined;
}

/** What template_list takes: Lists templates. */
export interface TemplateListInput {
}

/** What template_get takes: Shows a template. */
export interface TemplateGetInput {
  /** id or name of a template, percent-encoded */
  templateId: string;
}

/** What template_delete takes: Removes a template; sandboxes made from it stay. */
export interface TemplateDeleteInput {
  /** id or name of a template, percent-encoded */
  templateId: string;
}

/** What template_build takes: Builds a template again, on what its image's name means now. */
export interface TemplateBuildInput {
  /** id or name of a template, percent-encoded */
  templateId: string;
  /** look for a newer image first */
  pull?: boolean | undefined;
  /** run every command again */
  noCache?: boolean | undefined;
}

/** What template_build_directory takes: Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query. */
export interface TemplateBuildDirectoryInput {
  /** of the template; one of that name is replaced */
  name: string;
  /** for people */
  description?: string | undefined;
  /** in the archive; Dockerfile when absent, or cay.json where there is none */
  file?: string | undefined;
  /** a file at the top of the archive that is the Dockerfile, or the cay.json, and that COPY does not see; file is then only what it is called */
  apart?: string | undefined;
  /** in place of a file: the text itself */
  dockerfile?: string | undefined;
  /** the stage to end with; the last when absent */
  target?: string | undefined;
  /** values for ARG; an object in JSON, also in the query */
  buildArgs?: Record<string, string> | undefined;
  /** do every step again */
  noCache?: boolean | undefined;
  /** MB of memory for each RUN; brought into its range as with a create */
  memory?: number | undefined;
  /** cores for each RUN */
  cpu?: number | undefined;
  /** MB of disk for each RUN; moved to the nearer end of 64 to 1048576 */
  disk?: number | undefined;
  /** what each RUN may reach, as in a create; nothing when absent, or what a cay.json says */
  network?: boolean | string | Record<string, unknown> | undefined;
  /** seconds that a RUN may take; 1800 when absent */
  stepTimeout?: number | undefined;
}

/** What snapshot_create takes: Keeps a sandbox's disk as it is now; one that runs stands still while what it changed is copied. */
export interface SnapshotCreateInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** to use in place of the id; the id when absent */
  name?: string | undefined;
  /** of the caller */
  labels?: Record<string, string> | undefined;
}

/** What snapshot_list takes: Lists the snapshots of a sandbox, which may be gone itself; the newest first. */
export interface SnapshotListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** only those with all of these */
  labels?: Record<string, string> | undefined;
}

/** What snapshot_restore takes: Gives a sandbox the files of its snapshot back; its processes end, and the entrypoint runs again. */
export interface SnapshotRestoreInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a snapshot of this sandbox, or the name of exactly one */
  snapshotId: string;
}

/** What snapshot_all takes: Lists the snapshots of all sandboxes, the newest first. */
export interface SnapshotAllInput {
  /** only those with all of these */
  labels?: Record<string, string> | undefined;
}

/** What snapshot_import takes: Makes a snapshot from a layer on top of an image; only for root, on the unix socket. */
export interface SnapshotImportInput {
  /** on the daemon's machine: a layer that an export wrote, or another of OCI */
  path: string;
  /** that it is on top of, which must be here */
  image: string;
  /** to use in place of the id; the id when absent */
  name?: string | undefined;
  /** of the caller */
  labels?: Record<string, string> | undefined;
}

/** What snapshot_export takes: Gives what a snapshot has beyond its image, as an OCI layer in a tar archive. */
export interface SnapshotExportInput {
  /** id of a snapshot, or the name of exactly one, percent-encoded */
  snapshotId: string;
}

/** What snapshot_get takes: Shows a snapshot. */
export interface SnapshotGetInput {
  /** id of a snapshot, or the name of exactly one, percent-encoded */
  snapshotId: string;
}

/** What snapshot_delete takes: Removes a snapshot. */
export interface SnapshotDeleteInput {
  /** id of a snapshot, or the name of exactly one, percent-encoded */
  snapshotId: string;
}

/** What snapshot_label takes: Gives a snapshot another name, or labels. */
export interface SnapshotLabelInput {
  /** id of a snapshot, or the name of exactly one, percent-encoded */
  snapshotId: string;
  /** its new name */
  name?: string | undefined;
  /** added to those that it has; an empty value takes one away */
  labels?: Record<string, string> | undefined;
}

/** What snapshot_clone takes: Makes a sandbox from a snapshot. */
export interface SnapshotCloneInput {
  /** id of a snapshot, or the name of exactly one, percent-encoded */
  snapshotId: string;
  /** of the new sandbox */
  name?: string | undefined;
  /** fail with name_taken when another sandbox has such a name */
  unique?: boolean | undefined;
  /** what happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove */
  onTimeout?: "remove" | "stop" | undefined;
}

/** What sandbox_diff takes: Tells which files of a sandbox were added, modified or deleted; one that runs stands still meanwhile. */
export interface SandboxDiffInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id or name of a snapshot; what the sandbox was made from when absent */
  snapshotId?: string | undefined;
}

/** What sandbox_clone takes: Makes a sandbox from another as it is now, with its files and its configuration. */
export interface SandboxCloneInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the new sandbox */
  name?: string | undefined;
  /** fail with name_taken when another sandbox has such a name */
  unique?: boolean | undefined;
  /** what happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove */
  onTimeout?: "remove" | "stop" | undefined;
}

/** What sandbox_fork takes: Makes several such clones, or none. */
export interface SandboxForkInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** how many */
  count?: number | undefined;
  /** of the new sandbox; several are called NAME-1, NAME-2 and so on */
  name?: string | undefined;
  /** fail with name_taken when another sandbox has such a name */
  unique?: boolean | undefined;
  /** what happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove */
  onTimeout?: "remove" | "stop" | undefined;
}

/** What volume_create takes: Makes a volume. */
export interface VolumeCreateInput {
  /** to use in place of the id; without / : , and may repeat */
  name: string;
  /** MB that it can hold (default CAY_DEFAULT_VOLUME) */
  sizeMb?: number | undefined;
  /** taken and ignored, for clients that send it; another type is ignored with a warning */
  driver?: string | undefined;
}

/** What volume_list takes: Lists volumes, the newest first. */
export interface VolumeListInput {
}

/** What volume_get takes: Shows a volume and who has it. */
export interface VolumeGetInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
}

/** What volume_delete takes: Removes a volume that no sandbox has, and all that is in it. */
export interface VolumeDeleteInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
}

/** What volume_attach takes: Mounts a volume in a sandbox, at once and whenever it is started. */
export interface VolumeAttachInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** id of a sandbox, or the name of exactly one */
  sandboxId: string;
  /** absolute; made when it is missing. No part of it may be a link */
  mountPath: string;
  /** nothing can be written there */
  readOnly?: boolean | undefined;
  /** no program can be started from there */
  noexec?: boolean | undefined;
  /** the folder of it that is mounted; made when it is missing */
  subPath?: string | undefined;
}

/** What volume_detach takes: Takes a volume out of a sandbox; refused while files of it are open. */
export interface VolumeDetachInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** which sandbox, when several have it */
  sandboxId?: string | undefined;
  /** which place, when the sandbox has it at several */
  mountPath?: string | undefined;
}

/** What volume_files takes: Lists a folder of a volume. */
export interface VolumeFilesInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** a folder in it */
  path?: string | undefined;
}

/** What volume_file_info takes: Shows what a path of a volume is. */
export interface VolumeFileInfoInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
}

/** What volume_read takes: Reads a file of a volume as text. */
export interface VolumeReadInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
}

/** What volume_download takes: Reads a file of a volume; with Accept: application/octet-stream as it is. */
export interface VolumeDownloadInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
}

/** What volume_write takes: Replaces a file of a volume with text. */
export interface VolumeWriteInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
  /** text */
  content: string;
}

/** What volume_upload takes: Replaces a file of a volume with bytes. */
export interface VolumeUploadInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
  /** octal digits; else as it is, or 0644 */
  mode?: string | undefined;
  /** base64; or send the bytes as the body */
  content?: string | undefined;
}

/** What volume_mkdir takes: Makes a folder in a volume, with those above it. */
export interface VolumeMkdirInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
}

/** What volume_remove_file takes: Removes a file or a folder of a volume. */
export interface VolumeRemoveFileInput {
  /** id of a volume, or the name of exactly one, percent-encoded */
  volumeId: string;
  /** in the volume, whose top is / */
  path: string;
  /** a folder goes with all that is in it */
  recursive?: boolean | undefined;
}

/** What terminal_create takes: Starts a shell on a terminal, which goes on until it exits or is closed. */
export interface TerminalCreateInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** of the terminal */
  cols?: number | undefined;
  /** of the terminal */
  rows?: number | undefined;
  /** /bin/sh, /bin/bash, /bin/zsh or /bin/ash */
  shell?: string | undefined;
  /** where it starts; the sandbox's workdir when absent */
  cwd?: string | undefined;
  /** added to the sandbox's */
  env?: Record<string, string> | undefined;
  /** name or uid, with :group or :gid; the image's */
  user?: string | undefined;
  /** write down what it shows, and when */
  record?: boolean | undefined;
}

/** What terminal_list takes: Lists terminals, also those of commands; the newest first. */
export interface TerminalListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What terminal_get takes: Shows a terminal. */
export interface TerminalGetInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a terminal */
  sessionId: string;
}

/** What terminal_close takes: Ends the shell of a terminal and all that it started. */
export interface TerminalCloseInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a terminal */
  sessionId: string;
}

/** What terminal_resize takes: Gives a terminal another size. */
export interface TerminalResizeInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a terminal */
  sessionId: string;
  /** of the terminal */
  cols: number;
  /** of the terminal */
  rows: number;
}

/** What terminal_attach takes: Shows a terminal and takes what is typed, over a WebSocket. */
export interface TerminalAttachInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a terminal */
  sessionId: string;
  /** where to begin: 0 is all that is kept, a number past the end only what is to come */
  cursor?: number | undefined;
  /** look on: what is sent is not taken */
  readOnly?: boolean | undefined;
  /** of the terminal */
  cols?: number | undefined;
  /** of the terminal */
  rows?: number | undefined;
}

/** What terminal_recording takes: What a terminal that is recorded has shown until now, as asciicast v2. */
export interface TerminalRecordingInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** id of a terminal */
  sessionId: string;
}

/** What terminal_channel takes: One end of a terminal's channel, over a WebSocket; also without the prefix. */
export interface TerminalChannelInput {
  /** id of a channel */
  channelId: string;
  /** access_key of the end that dir names */
  key: string;
  /** read what the terminal shows, or write what is typed */
  dir: "read" | "write";
}

/** What pool_status takes: Says how many sandboxes are ready before somebody asks for one; without a token the numbers only. */
export interface PoolStatusInput {
}

/** What pool_profiles takes: Lists the kinds of sandboxes that the pool has ready. */
export interface PoolProfilesInput {
}

/** What pool_add takes: Has so many sandboxes of a kind ready from now on, also after a restart. */
export interface PoolAddInput {
  /** as in a create; it is not pulled for the pool */
  image?: string | undefined;
  /** in place of an image: id or name of a template, whose image and limits these are */
  template?: string | undefined;
  /** how many */
  size?: number | undefined;
  /** MB, as in a create */
  memory?: number | undefined;
  /** cores, as in a create */
  cpu?: number | undefined;
  /** processes and threads, as in a create */
  pids?: number | undefined;
  /** MB of disk, as in a create; moved to the nearer end of 64 to 1048576 */
  disk?: number | undefined;
  /** what has started in them already, for code without a context */
  interpreter?: PoolInterpreter | undefined;
  /** as in a create */
  network?: boolean | string | NetworkPolicy | undefined;
}

/** What pool_remove takes: Removes a profile and what is ready of it. */
export interface PoolRemoveInput {
  /** id of a profile of the pool */
  profileId: string;
}

/** What proxy_request takes: Sends one request to an exposed port of a sandbox. */
export interface ProxyRequestInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** number of a port in the sandbox */
  port: string;
  /** of the request */
  method?: string | undefined;
  /** with its query */
  path?: string | undefined;
  /** of the request */
  headers?: Record<string, string> | undefined;
  /** of the request; not for GET and HEAD */
  body?: string | undefined;
}

/** What proxy_config takes: Sets how requests are passed on to a sandbox; tells it when nothing is given. */
export interface ProxyConfigInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** origins whose pages may read answers, with commas; * = all, "" = as the server in the sandbox says */
  cors?: string | undefined;
  /** true: exposed ports need a token or a signature, too */
  requireAuth?: boolean | undefined;
  /** ms until the head of an answer must come */
  timeout?: number | undefined;
  /** true: addresses that were signed before lead nowhere from now on */
  revokeSigned?: boolean | undefined;
}

/** What proxy_sign takes: Makes an address that opens one port of a sandbox for a while. */
export interface ProxySignInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in the sandbox */
  port: number;
  /** seconds; moved to the nearer end of 1 to 2678400 */
  expiresIn?: number | undefined;
  /** where the address leads; the whole port is open to who has it */
  path?: string | undefined;
}

/** What network_create takes: Makes a network, in which sandboxes see each other. */
export interface NetworkCreateInput {
  /** letters, digits, _ . and -; no other network has it */
  name: string;
  /** taken and ignored, for clients that send it; another type is ignored with a warning */
  driver?: string | undefined;
}

/** What network_list takes: Lists networks, the newest first. */
export interface NetworkListInput {
}

/** What network_get takes: Shows a network and who is in it. */
export interface NetworkGetInput {
  /** id or name of a network */
  networkId: string;
}

/** What network_delete takes: Removes a network; sandboxes in it are disconnected first. */
export interface NetworkDeleteInput {
  /** id or name of a network */
  networkId: string;
}

/** What network_connect takes: Connects a sandbox, also one without network, at once and whenever it is started. */
export interface NetworkConnectInput {
  /** id or name of a network */
  networkId: string;
  /** id of a sandbox, or the name of exactly one */
  sandboxId: string;
}

/** What network_disconnect takes: Takes a sandbox out of a network; what is open between it and the others is cut. */
export interface NetworkDisconnectInput {
  /** id or name of a network */
  networkId: string;
  /** id of a sandbox, or the name of exactly one */
  sandboxId: string;
}

/** What port_expose takes: Lets a port of a sandbox be reached on the host, with or without a network. */
export interface PortExposeInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in the sandbox */
  containerPort: number;
  /** on the host; 0 = any that is free (default: containerPort) */
  hostPort?: number | undefined;
  /** tcp or udp */
  protocol?: "tcp" | "udp" | undefined;
  /** of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES allows */
  hostAddress?: string | undefined;
}

/** What port_list takes: Lists the ports of a sandbox that can be reached on the host. */
export interface PortListInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
}

/** What port_unexpose takes: A port cannot be reached on the host any more; connections are cut. */
export interface PortUnexposeInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** in the sandbox */
  containerPort: number;
  /** only this one (default: both) */
  protocol?: "tcp" | "udp" | undefined;
}

/** What port_dial takes: Connects to a TCP port of a sandbox: the connection becomes that one (Upgrade: cay-dial). */
export interface PortDialInput {
  /** id of a sandbox, or the name of exactly one, percent-encoded */
  sandboxId: string;
  /** number of a port in the sandbox */
  port: string;
}

/** What event_history takes: Lists what has happened, the newest first. */
export interface EventHistoryInput {
  /** of this sandbox, which may be gone; a name is one that is there */
  sandboxId?: string | undefined;
  /** these topics: a list with commas; * at the end of one is whatever follows */
  topic?: string | undefined;
  /** from this time on, in Unix milliseconds */
  since?: number | undefined;
  /** up to this time, in Unix milliseconds */
  until?: number | undefined;
  /** how many at most */
  limit?: number | undefined;
  /** how many of the newest to leave out */
  offset?: number | undefined;
}

/** What event_publish takes: Keeps an event of the caller's own, and tells it to all who listen. */
export interface EventPublishInput {
  /** what happened */
  topic: string;
  /** to which sandbox; it need not be there */
  sandboxId: string;
  /** what there is to say about it */
  data?: Record<string, unknown> | undefined;
}

/** What stream_events takes: Streams what happens; Last-Event-ID goes on where a stream ended. */
export interface StreamEventsInput {
  /** these topics: a list with commas; * at the end of one is whatever follows */
  topic?: string | undefined;
  /** of this sandbox, which may be gone; a name is one that is there */
  sandboxId?: string | undefined;
  /** from this time on, in Unix milliseconds */
  since?: number | undefined;
  /** go on behind this event; also as the header Last-Event-ID */
  lastEventId?: string | undefined;
}

/** What token_create takes: Makes a token for some of what can be done; its text is told once. */
export interface TokenCreateInput {
  /** what it is for */
  name?: string | undefined;
  /** what it may: some of read, exec, write and admin, which is all of it */
  scopes: ("read" | "exec" | "write" | "admin")[];
  /** id or name of the only sandbox that it is for */
  sandboxId?: string | undefined;
  /** it is only for sandboxes whose metadata has this entry; those that it makes get it */
  label?: Record<string, string> | undefined;
  /** seconds; absent = it does not expire */
  expiresIn?: number | undefined;
}

/** What token_list takes: Lists tokens, without their texts. */
export interface TokenListInput {
}

/** What token_revoke takes: Ends a token, and the streams and terminals that were opened with it. */
export interface TokenRevokeInput {
  /** id of a token */
  tokenId: string;
}

/** What webhook_create takes: Has events sent to a URL, each signed, until it takes them. */
export interface WebhookCreateInput {
  /** https:// or http://; of the public internet, unless CAY_WEBHOOK_ALLOW has it */
  url: string;
  /** topics, beginnings of topics as exec.*, or * (the default) */
  topics?: string[] | undefined;
  /** of this sandbox only: its id, or the name of one */
  sandboxId?: string | undefined;
  /** what messages are signed with (default: a new one) */
  secret?: string | undefined;
}

/** What webhook_list takes: Lists webhooks, the newest first. */
export interface WebhookListInput {
}

/** What webhook_get takes: Shows a webhook and how it is doing. */
export interface WebhookGetInput {
  /** id of a webhook */
  webhookId: string;
}

/** What webhook_update takes: Puts a webhook off, or lets it go on. */
export interface WebhookUpdateInput {
  /** id of a webhook */
  webhookId: string;
  /** false: nothing is sent, and events wait; true: it goes on at once */
  active: boolean;
}

/** What webhook_delete takes: Removes a webhook; what was not sent is not. */
export interface WebhookDeleteInput {
  /** id of a webhook */
  webhookId: string;
}

/** What webhook_test takes: Sends a webhook.test once, at once, and tells what came of it. */
export interface WebhookTestInput {
  /** id of a webhook */
  webhookId: string;
}

/** What webhook_deliveries takes: Lists what was sent to a webhook last. */
export interface WebhookDeliveriesInput {
  /** id of a webhook */
  webhookId: string;
  /** how many at most */
  limit?: number | undefined;
}

/** What audit_list takes: Lists who did what, the oldest of the last first. */
export interface AuditListInput {
  /** Unix milliseconds: only what was later */
  since?: number | undefined;
  /** only lines with a larger n */
  after?: number | undefined;
  /** only about this sandbox, which may be gone */
  sandboxId?: string | undefined;
  /** only by this caller: root, admin, anyone, uid:N or the id of a token */
  who?: string | undefined;
  /** only calls of this function */
  function?: string | undefined;
  /** the last so many */
  limit?: number | undefined;
}

/** What audit_verify takes: Reads the whole audit log and says whether a line was changed, removed, put in or appended by another. */
export interface AuditVerifyInput {
  /** number and hash (42:9f86…), or the hash alone, of a line, kept elsewhere: is it still there? */
  head?: string | undefined;
}

export interface Operations {
  /** Makes a sandbox and starts it */
  sandbox_create: { input: SandboxCreateInput; output: SandboxInfo; event: CreateEvent };
  /** Lists sandboxes, the newest first */
  sandbox_list: { input: SandboxListInput; output: SandboxList; event: never };
  /** Shows a sandbox */
  sandbox_get: { input: SandboxGetInput; output: SandboxInfo; event: never };
  /** Changes a sandbox; what is not sent stays. Limits hold at once, and programs are told of them with the next start */
  sandbox_update: { input: SandboxUpdateInput; output: SandboxInfo; event: never };
  /** Ends a sandbox and removes it */
  sandbox_kill: { input: SandboxKillInput; output: Success; event: never };
  /** Freezes every process of a sandbox */
  sandbox_pause: { input: SandboxPauseInput; output: SandboxInfo; event: never };
  /** Lets a paused sandbox go on */
  sandbox_resume: { input: SandboxResumeInput; output: SandboxInfo; event: never };
  /** Ends every process of a sandbox and keeps its files; nothing happens to one that is stopped. It expires after CAY_STOPPED_TTL */
  sandbox_stop: { input: SandboxStopInput; output: SandboxInfo; event: never };
  /** Starts a stopped sandbox again, with its files, environment and entrypoint; nothing happens to one that runs. It expires after its timeout */
  sandbox_start: { input: SandboxStartInput; output: SandboxInfo; event: never };
  /** Says that a sandbox is in use, so that it is not idle */
  sandbox_touch: { input: SandboxTouchInput; output: SandboxInfo; event: never };
  /** Sets when a sandbox expires */
  sandbox_renew: { input: SandboxRenewInput; output: SandboxInfo; event: never };
  /** Shows what a sandbox may reach, its addresses and what it was refused */
  sandbox_network: { input: SandboxNetworkInput; output: SandboxNetwork; event: never };
  /** Changes what a sandbox may reach, also while it is paused or stopped; connections that are no longer allowed are cut */
  sandbox_network_set: { input: SandboxNetworkSetInput; output: SandboxNetwork; event: never };
  /** Tells what would happen to a connection, and why */
  sandbox_network_explain: { input: SandboxNetworkExplainInput; output: NetworkVerdict; event: never };
  /** Tells what would happen to a connection, and why */
  sandbox_network_explain_post: { input: SandboxNetworkExplainPostInput; output: NetworkVerdict; event: never };
  /** Lists what a sandbox was refused */
  sandbox_network_log: { input: SandboxNetworkLogInput; output: NetworkLog; event: never };
  /** Streams what a sandbox is refused, until it is removed */
  stream_network: { input: StreamNetworkInput; output: undefined; event: NetworkDenial };
  /** Runs a command and waits for it */
  cmd_run: { input: CmdRunInput; output: ExecResult; event: never };
  /** Lists commands that run, and the last that ended */
  cmd_list: { input: CmdListInput; output: ExecList; event: never };
  /** Runs a command and streams its output */
  cmd_run_stream: { input: CmdRunStreamInput; output: undefined; event: ExecEvent };
  /** Runs a command with input, output and signals over an upgraded connection */
  cmd_attach: { input: CmdAttachInput; output: undefined; event: never };
  /** Starts a command and leaves it running */
  cmd_background: { input: CmdBackgroundInput; output: BackgroundExec; event: never };
  /** Shows a background command; also while the sandbox is paused */
  cmd_background_status: { input: CmdBackgroundStatusInput; output: BackgroundExec; event: never };
  /** Reads the output of a background command; also while the sandbox is paused */
  cmd_background_logs: { input: CmdBackgroundLogsInput; output: ExecLogs; event: never };
  /** Shows a command and what it has put out */
  cmd_get: { input: CmdGetInput; output: ExecState; event: never };
  /** Streams what a command puts out, from a cursor on */
  cmd_get_stream: { input: CmdGetStreamInput; output: undefined; event: ExecEvent };
  /** Attaches to a command that runs, over an upgraded connection */
  cmd_get_attach: { input: CmdGetAttachInput; output: undefined; event: never };
  /** Ends a command and all that it started */
  cmd_kill: { input: CmdKillInput; output: ExecInfo; event: never };
  /** Sends SIGINT to a command or to all; to a paused sandbox as well, for when it goes on */
  cmd_interrupt: { input: CmdInterruptInput; output: Interrupted; event: never };
  /** Reads a file as text */
  fs_read: { input: FsReadInput; output: FileText; event: never };
  /** Replaces a file with text; parents are made */
  fs_write: { input: FsWriteInput; output: Success; event: never };
  /** Removes a file; fine if it is gone */
  fs_delete: { input: FsDeleteInput; output: Success; event: never };
  /** Lists a directory */
  fs_list: { input: FsListInput; output: FileList; event: never };
  /** Finds regular files by name, in all folders below */
  fs_search: { input: FsSearchInput; output: FilePaths; event: never };
  /** Replaces a file with bytes; a stream has no size limit but the sandbox's disk */
  fs_upload: { input: FsUploadInput; output: Success; event: never };
  /** Reads a file's bytes; with Accept: application/octet-stream as they are */
  fs_download: { input: FsDownloadInput; output: FileBytes; event: never };
  /** Shows what paths are */
  fs_info: { input: FsInfoInput; output: FileMetaAnswer; event: never };
  /** Moves as mv does: onto a directory means into it, and a directory replaces nothing; stops at the first failure */
  fs_move: { input: FsMoveInput; output: Success; event: never };
  /** Copies a file, or a directory with all that is in it, with modes, owners and times */
  fs_copy: { input: FsCopyInput; output: Success; event: never };
  /** Makes a symbolic link; parents are made */
  fs_symlink: { input: FsSymlinkInput; output: Success; event: never };
  /** Makes directories and their parents */
  fs_mkdir: { input: FsMkdirInput; output: Success; event: never };
  /** Removes directories and what is in them */
  fs_rmdir: { input: FsRmdirInput; output: Success; event: never };
  /** Changes a file's mode */
  fs_chmod: { input: FsChmodInput; output: Success; event: never };
  /** Puts a command into the queue, which runs it when its turn comes, also after a restart; while the sandbox is paused or stopped it waits */
  queue_submit: { input: QueueSubmitInput; output: Job; event: never };
  /** Lists jobs, the newest first */
  queue_list: { input: QueueListInput; output: JobList; event: never };
  /** Shows a job, and once it is over its result */
  queue_status: { input: QueueStatusInput; output: Job; event: never };
  /** Gives what a job has put out, also while it runs */
  queue_logs: { input: QueueLogsInput; output: JobLogs; event: never };
  /** Takes a job out of the queue; one that runs is ended, with all that it started */
  queue_cancel: { input: QueueCancelInput; output: JobCancelled; event: never };
  /** Lists the jobs that failed: the dead letters */
  queue_dlq: { input: QueueDlqInput; output: JobList; event: never };
  /** Forgets the jobs that failed */
  queue_purge: { input: QueuePurgeInput; output: JobsPurged; event: never };
  /** Puts a job that failed into the queue again, with all its tries */
  queue_requeue: { input: QueueRequeueInput; output: Job; event: never };
  /** Forgets a job that failed */
  queue_forget: { input: QueueForgetInput; output: JobsPurged; event: never };
  /** Tells of changes to files as they happen */
  fs_watch: { input: FsWatchInput; output: undefined; event: FileChange };
  /** Tells of changes to files as they happen, over a WebSocket */
  fs_watch_socket: { input: FsWatchSocketInput; output: undefined; event: never };
  /** Runs code and waits for it; what it prints and gives comes as events to who asks for them */
  interp_execute: { input: InterpExecuteInput; output: Execution; event: ExecutionEvent };
  /** Installs packages for a language, or of the system */
  interp_install: { input: InterpInstallInput; output: Installed; event: never };
  /** Lists the languages that this sandbox has */
  interp_kernels: { input: InterpKernelsInput; output: Kernels; event: never };
  /** Starts an interpreter that keeps what code leaves in it */
  interp_context_create: { input: InterpContextCreateInput; output: CodeContext; event: never };
  /** Lists the contexts of a sandbox */
  interp_context_list: { input: InterpContextListInput; output: CodeContextList; event: never };
  /** Shows a context */
  interp_context_get: { input: InterpContextGetInput; output: CodeContext; event: never };
  /** Ends a context, with all that it started */
  interp_context_delete: { input: InterpContextDeleteInput; output: Success; event: never };
  /** Ends a context and starts it anew, empty, with the same id and settings */
  interp_context_restart: { input: InterpContextRestartInput; output: CodeContext; event: never };
  /** Interrupts what a context runs, as Ctrl-C does; what it keeps stays */
  interp_context_interrupt: { input: InterpContextInterruptInput; output: Success; event: never };
  /** Reads a variable of the environment */
  env_get: { input: EnvGetInput; output: EnvValue; event: never };
  /** Sets variables for every later command */
  env_set: { input: EnvSetInput; output: EnvSet; event: never };
  /** Lists the environment of commands */
  env_list: { input: EnvListInput; output: EnvList; event: never };
  /** Removes a variable */
  env_delete: { input: EnvDeleteInput; output: EnvDeleted; event: never };
  /** Clones a repository with the sandbox's git */
  git_clone: { input: GitCloneInput; output: ExecResult; event: GitEvent };
  /** Shows what is not as in the last commit */
  git_status: { input: GitStatusInput; output: GitStatus; event: never };
  /** Makes a commit */
  git_commit: { input: GitCommitInput; output: ExecResult; event: never };
  /** Shows what has changed */
  git_diff: { input: GitDiffInput; output: GitDiff; event: never };
  /** Lists the last commits */
  git_log: { input: GitLogInput; output: GitLog; event: never };
  /** Lists branches, makes one or deletes one */
  git_branch: { input: GitBranchInput; output: GitBranches; event: never };
  /** Checks out a branch, a tag or a commit */
  git_checkout: { input: GitCheckoutInput; output: ExecResult; event: never };
  /** Pushes commits to a remote */
  git_push: { input: GitPushInput; output: ExecResult; event: GitEvent };
  /** Takes commits from a remote */
  git_pull: { input: GitPullInput; output: ExecResult; event: GitEvent };
  /** Sets a threshold for what a sandbox uses */
  monitor_set_alert: { input: MonitorSetAlertInput; output: Alert; event: never };
  /** Lists the alerts of a sandbox */
  monitor_list_alerts: { input: MonitorListAlertsInput; output: AlertList; event: never };
  /** Deletes an alert */
  monitor_delete_alert: { input: MonitorDeleteAlertInput; output: AlertDeleted; event: never };
  /** Tells when alerts of a sandbox have fired */
  monitor_alert_history: { input: MonitorAlertHistoryInput; output: AlertHistory; event: never };
  /** Lists the processes of a sandbox */
  proc_list: { input: ProcListInput; output: ProcessList; event: never };
  /** Sends a signal; fine if the process is gone */
  proc_kill: { input: ProcKillInput; output: ProcessKilled; event: never };
  /** Lists the processes with what they use */
  proc_top: { input: ProcTopInput; output: ProcessTop; event: never };
  /** Shows what a sandbox uses */
  metrics_sandbox: { input: MetricsSandboxInput; output: Metrics; event: never };
  /** Shows counters of the daemon */
  metrics_global: { input: MetricsGlobalInput; output: GlobalMetrics; event: never };
  /** Says that the daemon answers */
  metrics_health: { input: MetricsHealthInput; output: Health; event: never };
  /** Lists calls that have ended, newest first */
  observability_traces: { input: ObservabilityTracesInput; output: Traces; event: never };
  /** Shows what all calls add up to: counts, failures, percentiles */
  observability_metrics: { input: ObservabilityMetricsInput; output: ObservabilityMetrics; event: never };
  /** Removes traces; counters of /metrics stay */
  observability_clear: { input: ObservabilityClearInput; output: TracesCleared; event: never };
  /** Tells all metrics as text for Prometheus; also at /metrics without the prefix */
  metrics_prometheus: { input: MetricsPrometheusInput; output: undefined; event: never };
  /** Shows what a sandbox used within the last hour */
  metrics_history: { input: MetricsHistoryInput; output: MetricsHistory; event: never };
  /** Streams the output of the main process, line by line */
  stream_logs: { input: StreamLogsInput; output: undefined; event: LogEvent };
  /** Streams what a sandbox uses */
  stream_metrics: { input: StreamMetricsInput; output: undefined; event: Metrics };
  /** Lists images */
  image_list: { input: ImageListInput; output: ImageList; event: never };
  /** Lists the short names of images and what they stand for */
  image_catalog: { input: ImageCatalogInput; output: ImageCatalog; event: never };
  /** Gets an image from its registry */
  image_pull: { input: ImagePullInput; output: Image; event: PullEvent };
  /** Makes an image from a directory or an archive; only for root, on the unix socket */
  image_import: { input: ImageImportInput; output: Image; event: PullEvent };
  /** Removes images that no sandbox uses */
  image_prune: { input: ImagePruneInput; output: ImagePrune; event: never };
  /** Shows an image; / and : of its name are percent-encoded */
  image_get: { input: ImageGetInput; output: Image; event: never };
  /** Removes an image that no sandbox uses */
  image_remove: { input: ImageRemoveInput; output: ImageDeleted; event: never };
  /** Gives an image one more name */
  image_tag: { input: ImageTagInput; output: Image; event: never };
  /** Gives an image as an OCI layout in a tar archive, which docker load takes too */
  image_export: { input: ImageExportInput; output: undefined; event: never };
  /** Makes an image of a sandbox as it is; one that runs stands still meanwhile */
  image_commit: { input: ImageCommitInput; output: Image; event: never };
  /** Removes expired sandboxes now */
  lifecycle_sweep: { input: LifecycleSweepInput; output: Sweep; event: never };
  /** Lists what is on this machine and belongs to no sandbox */
  system_strays: { input: SystemStraysInput; output: Strays; event: never };
  /** Makes a stopped sandbox of a disk that belongs to none */
  system_stray_adopt: { input: SystemStrayAdoptInput; output: SandboxInfo; event: never };
  /** Removes a disk that belongs to no sandbox */
  system_stray_remove: { input: SystemStrayRemoveInput; output: Success; event: never };
  /** Says what this daemon is */
  system_info: { input: SystemInfoInput; output: Info; event: never };
  /** Gives this description; also outside of the prefix */
  system_openapi: { input: SystemOpenapiInput; output: OpenApi; event: never };
  /** Shows this machine as it is now */
  worker_heartbeat: { input: WorkerHeartbeatInput; output: Worker; event: never };
  /** Lists the machines with sandboxes: this one */
  worker_list: { input: WorkerListInput; output: WorkerList; event: never };
  /** Says on which machine there is room for another sandbox */
  worker_select: { input: WorkerSelectInput; output: WorkerSelected; event: never };
  /** Takes over what machines had that are gone: of one machine there are none */
  worker_reap: { input: WorkerReapInput; output: WorkersReaped; event: never };
  /** Gives sandboxes without a machine to this one: all have it already */
  worker_migrate: { input: WorkerMigrateInput; output: WorkersMigrated; event: never };
  /** Shows this machine as it is now */
  worker_heartbeat_too: { input: WorkerHeartbeatTooInput; output: Worker; event: never };
  /** Lists the machines with sandboxes: this one */
  worker_list_too: { input: WorkerListTooInput; output: WorkerList; event: never };
  /** Says on which machine there is room for another sandbox */
  worker_select_too: { input: WorkerSelectTooInput; output: WorkerSelected; event: never };
  /** Says on which machine there is room for another sandbox */
  worker_select_get: { input: WorkerSelectGetInput; output: WorkerSelected; event: never };
  /** Takes over what machines had that are gone: of one machine there are none */
  worker_reap_too: { input: WorkerReapTooInput; output: WorkersReaped; event: never };
  /** Gives sandboxes without a machine to this one: all have it already */
  worker_migrate_too: { input: WorkerMigrateTooInput; output: WorkersMigrated; event: never };
  /** Makes a template; with setup it is built first */
  template_create: { input: TemplateCreateInput; output: Template; event: TemplateBuildEvent };
  /** Lists templates */
  template_list: { input: TemplateListInput; output: TemplateList; event: never };
  /** Shows a template */
  template_get: { input: TemplateGetInput; output: Template; event: never };
  /** Removes a template; sandboxes made from it stay */
  template_delete: { input: TemplateDeleteInput; output: TemplateDeleted; event: never };
  /** Builds a template again, on what its image's name means now */
  template_build: { input: TemplateBuildInput; output: Template; event: TemplateBuildEvent };
  /** Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query */
  template_build_directory: { input: TemplateBuildDirectoryInput; output: Template; event: TemplateBuildEvent };
  /** Keeps a sandbox's disk as it is now; one that runs stands still while what it changed is copied */
  snapshot_create: { input: SnapshotCreateInput; output: Snapshot; event: never };
  /** Lists the snapshots of a sandbox, which may be gone itself; the newest first */
  snapshot_list: { input: SnapshotListInput; output: SnapshotList; event: never };
  /** Gives a sandbox the files of its snapshot back; its processes end, and the entrypoint runs again */
  snapshot_restore: { input: SnapshotRestoreInput; output: SandboxInfo; event: never };
  /** Lists the snapshots of all sandboxes, the newest first */
  snapshot_all: { input: SnapshotAllInput; output: SnapshotList; event: never };
  /** Makes a snapshot from a layer on top of an image; only for root, on the unix socket */
  snapshot_import: { input: SnapshotImportInput; output: Snapshot; event: never };
  /** Gives what a snapshot has beyond its image, as an OCI layer in a tar archive */
  snapshot_export: { input: SnapshotExportInput; output: undefined; event: never };
  /** Shows a snapshot */
  snapshot_get: { input: SnapshotGetInput; output: Snapshot; event: never };
  /** Removes a snapshot */
  snapshot_delete: { input: SnapshotDeleteInput; output: SnapshotDeleted; event: never };
  /** Gives a snapshot another name, or labels */
  snapshot_label: { input: SnapshotLabelInput; output: Snapshot; event: never };
  /** Makes a sandbox from a snapshot */
  snapshot_clone: { input: SnapshotCloneInput; output: SandboxInfo; event: never };
  /** Tells which files of a sandbox were added, modified or deleted; one that runs stands still meanwhile */
  sandbox_diff: { input: SandboxDiffInput; output: Diff; event: never };
  /** Makes a sandbox from another as it is now, with its files and its configuration */
  sandbox_clone: { input: SandboxCloneInput; output: SandboxInfo; event: never };
  /** Makes several such clones, or none */
  sandbox_fork: { input: SandboxForkInput; output: Fork; event: never };
  /** Makes a volume */
  volume_create: { input: VolumeCreateInput; output: Volume; event: never };
  /** Lists volumes, the newest first */
  volume_list: { input: VolumeListInput; output: VolumeList; event: never };
  /** Shows a volume and who has it */
  volume_get: { input: VolumeGetInput; output: Volume; event: never };
  /** Removes a volume that no sandbox has, and all that is in it */
  volume_delete: { input: VolumeDeleteInput; output: VolumeDeleted; event: never };
  /** Mounts a volume in a sandbox, at once and whenever it is started */
  volume_attach: { input: VolumeAttachInput; output: VolumeAttached; event: never };
  /** Takes a volume out of a sandbox; refused while files of it are open */
  volume_detach: { input: VolumeDetachInput; output: VolumeDetached; event: never };
  /** Lists a folder of a volume */
  volume_files: { input: VolumeFilesInput; output: FileList; event: never };
  /** Shows what a path of a volume is */
  volume_file_info: { input: VolumeFileInfoInput; output: FileMeta; event: never };
  /** Reads a file of a volume as text */
  volume_read: { input: VolumeReadInput; output: FileText; event: never };
  /** Reads a file of a volume; with Accept: application/octet-stream as it is */
  volume_download: { input: VolumeDownloadInput; output: FileBytes; event: never };
  /** Replaces a file of a volume with text */
  volume_write: { input: VolumeWriteInput; output: Success; event: never };
  /** Replaces a file of a volume with bytes */
  volume_upload: { input: VolumeUploadInput; output: Success; event: never };
  /** Makes a folder in a volume, with those above it */
  volume_mkdir: { input: VolumeMkdirInput; output: Success; event: never };
  /** Removes a file or a folder of a volume */
  volume_remove_file: { input: VolumeRemoveFileInput; output: Success; event: never };
  /** Starts a shell on a terminal, which goes on until it exits or is closed */
  terminal_create: { input: TerminalCreateInput; output: Terminal; event: never };
  /** Lists terminals, also those of commands; the newest first */
  terminal_list: { input: TerminalListInput; output: TerminalList; event: never };
  /** Shows a terminal */
  terminal_get: { input: TerminalGetInput; output: Terminal; event: never };
  /** Ends the shell of a terminal and all that it started */
  terminal_close: { input: TerminalCloseInput; output: TerminalClosed; event: never };
  /** Gives a terminal another size */
  terminal_resize: { input: TerminalResizeInput; output: TerminalSize; event: never };
  /** Shows a terminal and takes what is typed, over a WebSocket */
  terminal_attach: { input: TerminalAttachInput; output: undefined; event: never };
  /** What a terminal that is recorded has shown until now, as asciicast v2 */
  terminal_recording: { input: TerminalRecordingInput; output: undefined; event: never };
  /** One end of a terminal's channel, over a WebSocket; also without the prefix */
  terminal_channel: { input: TerminalChannelInput; output: undefined; event: never };
  /** Says how many sandboxes are ready before somebody asks for one; without a token the numbers only */
  pool_status: { input: PoolStatusInput; output: PoolStatus; event: never };
  /** Lists the kinds of sandboxes that the pool has ready */
  pool_profiles: { input: PoolProfilesInput; output: PoolProfiles; event: never };
  /** Has so many sandboxes of a kind ready from now on, also after a restart */
  pool_add: { input: PoolAddInput; output: PoolProfile; event: never };
  /** Removes a profile and what is ready of it */
  pool_remove: { input: PoolRemoveInput; output: Success; event: never };
  /** Sends one request to an exposed port of a sandbox */
  proxy_request: { input: ProxyRequestInput; output: ProxyAnswer; event: never };
  /** Sets how requests are passed on to a sandbox; tells it when nothing is given */
  proxy_config: { input: ProxyConfigInput; output: ProxyConfig; event: never };
  /** Makes an address that opens one port of a sandbox for a while */
  proxy_sign: { input: ProxySignInput; output: ProxySigned; event: never };
  /** Makes a network, in which sandboxes see each other */
  network_create: { input: NetworkCreateInput; output: Network; event: never };
  /** Lists networks, the newest first */
  network_list: { input: NetworkListInput; output: NetworkList; event: never };
  /** Shows a network and who is in it */
  network_get: { input: NetworkGetInput; output: Network; event: never };
  /** Removes a network; sandboxes in it are disconnected first */
  network_delete: { input: NetworkDeleteInput; output: NetworkDeleted; event: never };
  /** Connects a sandbox, also one without network, at once and whenever it is started */
  network_connect: { input: NetworkConnectInput; output: NetworkConnected; event: never };
  /** Takes a sandbox out of a network; what is open between it and the others is cut */
  network_disconnect: { input: NetworkDisconnectInput; output: NetworkDisconnected; event: never };
  /** Lets a port of a sandbox be reached on the host, with or without a network */
  port_expose: { input: PortExposeInput; output: Port; event: never };
  /** Lists the ports of a sandbox that can be reached on the host */
  port_list: { input: PortListInput; output: PortList; event: never };
  /** A port cannot be reached on the host any more; connections are cut */
  port_unexpose: { input: PortUnexposeInput; output: PortRemoved; event: never };
  /** Connects to a TCP port of a sandbox: the connection becomes that one (Upgrade: cay-dial) */
  port_dial: { input: PortDialInput; output: undefined; event: never };
  /** Lists what has happened, the newest first */
  event_history: { input: EventHistoryInput; output: EventList; event: never };
  /** Keeps an event of the caller's own, and tells it to all who listen */
  event_publish: { input: EventPublishInput; output: Event; event: never };
  /** Streams what happens; Last-Event-ID goes on where a stream ended */
  stream_events: { input: StreamEventsInput; output: undefined; event: Event };
  /** Makes a token for some of what can be done; its text is told once */
  token_create: { input: TokenCreateInput; output: Token; event: never };
  /** Lists tokens, without their texts */
  token_list: { input: TokenListInput; output: TokenList; event: never };
  /** Ends a token, and the streams and terminals that were opened with it */
  token_revoke: { input: TokenRevokeInput; output: Success; event: never };
  /** Has events sent to a URL, each signed, until it takes them */
  webhook_create: { input: WebhookCreateInput; output: WebhookMade; event: never };
  /** Lists webhooks, the newest first */
  webhook_list: { input: WebhookListInput; output: WebhookList; event: never };
  /** Shows a webhook and how it is doing */
  webhook_get: { input: WebhookGetInput; output: Webhook; event: never };
  /** Puts a webhook off, or lets it go on */
  webhook_update: { input: WebhookUpdateInput; output: Webhook; event: never };
  /** Removes a webhook; what was not sent is not */
  webhook_delete: { input: WebhookDeleteInput; output: WebhookDeleted; event: never };
  /** Sends a webhook.test once, at once, and tells what came of it */
  webhook_test: { input: WebhookTestInput; output: Delivery; event: never };
  /** Lists what was sent to a webhook last */
  webhook_deliveries: { input: WebhookDeliveriesInput; output: DeliveryList; event: never };
  /** Lists who did what, the oldest of the last first */
  audit_list: { input: AuditListInput; output: AuditList; event: never };
  /** Reads the whole audit log and says whether a line was changed, removed, put in or appended by another */
  audit_verify: { input: AuditVerifyInput; output: AuditReport; event: never };
}

/** Where each operation is; keyed: it takes an Idempotency-Key; upgrade: its answer is a connection. */
export const operations: { readonly [K in keyof Operations]: OperationRow } = {
  sandbox_create: { method: "POST", path: "/sandbox/sandboxes", keyed: true },
  sandbox_list: { method: "GET", path: "/sandbox/sandboxes" },
  sandbox_get: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}" },
  sandbox_update: { method: "PATCH", path: "/sandbox/sandboxes/{sandboxId}" },
  sandbox_kill: { method: "DELETE", path: "/sandbox/sandboxes/{sandboxId}" },
  sandbox_pause: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/pause" },
  sandbox_resume: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/resume" },
  sandbox_stop: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/stop" },
  sandbox_start: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/start" },
  sandbox_touch: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/touch" },
  sandbox_renew: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/renew" },
  sandbox_network: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/network" },
  sandbox_network_set: { method: "PUT", path: "/sandbox/sandboxes/{sandboxId}/network" },
  sandbox_network_explain: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/network/explain" },
  sandbox_network_explain_post: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/network/explain" },
  sandbox_network_log: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/network/log" },
  stream_network: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/stream/network" },
  cmd_run: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec" },
  cmd_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/exec" },
  cmd_run_stream: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/stream" },
  cmd_attach: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/attach", upgrade: true },
  cmd_background: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/background", keyed: true },
  cmd_background_status: { method: "GET", path: "/sandbox/exec/background/{execId}/status" },
  cmd_background_logs: { method: "GET", path: "/sandbox/exec/background/{execId}/logs" },
  cmd_get: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/exec/{execId}" },
  cmd_get_stream: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/exec/{execId}/stream" },
  cmd_get_attach: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/{execId}/attach", upgrade: true },
  cmd_kill: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/{execId}/kill" },
  cmd_interrupt: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/interrupt" },
  fs_read: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/read" },
  fs_write: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/write" },
  fs_delete: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/delete" },
  fs_list: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/list" },
  fs_search: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/search" },
  fs_upload: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/upload" },
  fs_download: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/download" },
  fs_info: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/info" },
  fs_move: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/move" },
  fs_copy: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/copy" },
  fs_symlink: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/symlink" },
  fs_mkdir: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/mkdir" },
  fs_rmdir: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/rmdir" },
  fs_chmod: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/chmod" },
  queue_submit: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/exec/queue", keyed: true },
  queue_list: { method: "GET", path: "/sandbox/queue" },
  queue_status: { method: "GET", path: "/sandbox/queue/{jobId}/status" },
  queue_logs: { method: "GET", path: "/sandbox/queue/{jobId}/logs" },
  queue_cancel: { method: "POST", path: "/sandbox/queue/{jobId}/cancel" },
  queue_dlq: { method: "GET", path: "/sandbox/queue/dlq" },
  queue_purge: { method: "DELETE", path: "/sandbox/queue/dlq" },
  queue_requeue: { method: "POST", path: "/sandbox/queue/dlq/{jobId}/requeue" },
  queue_forget: { method: "DELETE", path: "/sandbox/queue/dlq/{jobId}" },
  fs_watch: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/files/watch" },
  fs_watch_socket: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/files/watch/ws", upgrade: true },
  interp_execute: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/interpret/execute" },
  interp_install: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/interpret/install" },
  interp_kernels: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/interpret/kernels" },
  interp_context_create: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts", keyed: true },
  interp_context_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts" },
  interp_context_get: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}" },
  interp_context_delete: { method: "DELETE", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}" },
  interp_context_restart: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}/restart" },
  interp_context_interrupt: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}/interrupt" },
  env_get: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/env/get" },
  env_set: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/env" },
  env_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/env" },
  env_delete: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/env/delete" },
  git_clone: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/clone" },
  git_status: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/git/status" },
  git_commit: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/commit" },
  git_diff: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/git/diff" },
  git_log: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/git/log" },
  git_branch: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/branch" },
  git_checkout: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/checkout" },
  git_push: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/push" },
  git_pull: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/git/pull" },
  monitor_set_alert: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/alerts", keyed: true },
  monitor_list_alerts: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/alerts" },
  monitor_delete_alert: { method: "DELETE", path: "/sandbox/alerts/{alertId}" },
  monitor_alert_history: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/alerts/history" },
  proc_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/processes" },
  proc_kill: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/processes/kill" },
  proc_top: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/processes/top" },
  metrics_sandbox: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/metrics" },
  metrics_global: { method: "GET", path: "/sandbox/metrics" },
  metrics_health: { method: "GET", path: "/sandbox/health" },
  observability_traces: { method: "GET", path: "/sandbox/observability/traces" },
  observability_metrics: { method: "GET", path: "/sandbox/observability/metrics" },
  observability_clear: { method: "POST", path: "/sandbox/observability/clear" },
  metrics_prometheus: { method: "GET", path: "/sandbox/metrics/prometheus" },
  metrics_history: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/metrics/history" },
  stream_logs: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/stream/logs" },
  stream_metrics: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/stream/metrics" },
  image_list: { method: "GET", path: "/sandbox/images" },
  image_catalog: { method: "GET", path: "/sandbox/images/catalog" },
  image_pull: { method: "POST", path: "/sandbox/images/pull" },
  image_import: { method: "POST", path: "/sandbox/images/import" },
  image_prune: { method: "POST", path: "/sandbox/images/prune" },
  image_get: { method: "GET", path: "/sandbox/images/{name}" },
  image_remove: { method: "DELETE", path: "/sandbox/images/{name}" },
  image_tag: { method: "POST", path: "/sandbox/images/{image}/tag" },
  image_export: { method: "GET", path: "/sandbox/images/{name}/export" },
  image_commit: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/commit", keyed: true },
  lifecycle_sweep: { method: "POST", path: "/sandbox/admin/sweep" },
  system_strays: { method: "GET", path: "/sandbox/admin/strays" },
  system_stray_adopt: { method: "POST", path: "/sandbox/admin/strays/{strayId}/adopt" },
  system_stray_remove: { method: "DELETE", path: "/sandbox/admin/strays/{strayId}" },
  system_info: { method: "GET", path: "/sandbox/info" },
  system_openapi: { method: "GET", path: "/sandbox/openapi.json" },
  worker_heartbeat: { method: "POST", path: "/sandbox/admin/workers/heartbeat" },
  worker_list: { method: "GET", path: "/sandbox/admin/workers" },
  worker_select: { method: "GET", path: "/sandbox/admin/workers/select" },
  worker_reap: { method: "POST", path: "/sandbox/admin/workers/reap" },
  worker_migrate: { method: "POST", path: "/sandbox/admin/workers/migrate" },
  worker_heartbeat_too: { method: "POST", path: "/sandbox/workers/heartbeat" },
  worker_list_too: { method: "GET", path: "/sandbox/workers" },
  worker_select_too: { method: "POST", path: "/sandbox/workers/select" },
  worker_select_get: { method: "GET", path: "/sandbox/workers/select" },
  worker_reap_too: { method: "POST", path: "/sandbox/workers/reap" },
  worker_migrate_too: { method: "POST", path: "/sandbox/workers/migrate" },
  template_create: { method: "POST", path: "/sandbox/templates", keyed: true },
  template_list: { method: "GET", path: "/sandbox/templates" },
  template_get: { method: "GET", path: "/sandbox/templates/{templateId}" },
  template_delete: { method: "DELETE", path: "/sandbox/templates/{templateId}" },
  template_build: { method: "POST", path: "/sandbox/templates/{templateId}/build" },
  template_build_directory: { method: "POST", path: "/sandbox/templates/build" },
  snapshot_create: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/snapshots", keyed: true },
  snapshot_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/snapshots" },
  snapshot_restore: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/snapshots/restore" },
  snapshot_all: { method: "GET", path: "/sandbox/snapshots" },
  snapshot_import: { method: "POST", path: "/sandbox/snapshots/import", keyed: true },
  snapshot_export: { method: "GET", path: "/sandbox/snapshots/{snapshotId}/export" },
  snapshot_get: { method: "GET", path: "/sandbox/snapshots/{snapshotId}" },
  snapshot_delete: { method: "DELETE", path: "/sandbox/snapshots/{snapshotId}" },
  snapshot_label: { method: "POST", path: "/sandbox/snapshots/{snapshotId}/label" },
  snapshot_clone: { method: "POST", path: "/sandbox/snapshots/{snapshotId}/clone", keyed: true },
  sandbox_diff: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/diff" },
  sandbox_clone: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/clone", keyed: true },
  sandbox_fork: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/fork", keyed: true },
  volume_create: { method: "POST", path: "/sandbox/volumes", keyed: true },
  volume_list: { method: "GET", path: "/sandbox/volumes" },
  volume_get: { method: "GET", path: "/sandbox/volumes/{volumeId}" },
  volume_delete: { method: "DELETE", path: "/sandbox/volumes/{volumeId}" },
  volume_attach: { method: "POST", path: "/sandbox/volumes/{volumeId}/attach", keyed: true },
  volume_detach: { method: "POST", path: "/sandbox/volumes/{volumeId}/detach" },
  volume_files: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/list" },
  volume_file_info: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/info" },
  volume_read: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/read" },
  volume_download: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/download" },
  volume_write: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/write" },
  volume_upload: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/upload" },
  volume_mkdir: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/mkdir" },
  volume_remove_file: { method: "POST", path: "/sandbox/volumes/{volumeId}/files/delete" },
  terminal_create: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/terminal", keyed: true },
  terminal_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/terminal" },
  terminal_get: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/terminal/{sessionId}" },
  terminal_close: { method: "DELETE", path: "/sandbox/sandboxes/{sandboxId}/terminal/{sessionId}" },
  terminal_resize: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/resize" },
  terminal_attach: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/ws", upgrade: true },
  terminal_recording: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/recording" },
  terminal_channel: { method: "GET", path: "/sandbox/ws/channels/{channelId}", upgrade: true },
  pool_status: { method: "GET", path: "/sandbox/pool/status" },
  pool_profiles: { method: "GET", path: "/sandbox/pool/profiles" },
  pool_add: { method: "POST", path: "/sandbox/pool/profiles", keyed: true },
  pool_remove: { method: "DELETE", path: "/sandbox/pool/profiles/{profileId}" },
  proxy_request: { method: "POST", path: "/sandbox/proxy/{sandboxId}/{port}" },
  proxy_config: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/proxy/config" },
  proxy_sign: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/proxy/sign" },
  network_create: { method: "POST", path: "/sandbox/networks", keyed: true },
  network_list: { method: "GET", path: "/sandbox/networks" },
  network_get: { method: "GET", path: "/sandbox/networks/{networkId}" },
  network_delete: { method: "DELETE", path: "/sandbox/networks/{networkId}" },
  network_connect: { method: "POST", path: "/sandbox/networks/{networkId}/connect", keyed: true },
  network_disconnect: { method: "POST", path: "/sandbox/networks/{networkId}/disconnect" },
  port_expose: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/ports", keyed: true },
  port_list: { method: "GET", path: "/sandbox/sandboxes/{sandboxId}/ports" },
  port_unexpose: { method: "DELETE", path: "/sandbox/sandboxes/{sandboxId}/ports" },
  port_dial: { method: "POST", path: "/sandbox/sandboxes/{sandboxId}/dial/{port}", upgrade: true },
  event_history: { method: "GET", path: "/sandbox/events/history" },
  event_publish: { method: "POST", path: "/sandbox/events/publish", keyed: true },
  stream_events: { method: "GET", path: "/sandbox/stream/events" },
  token_create: { method: "POST", path: "/sandbox/tokens", keyed: true },
  token_list: { method: "GET", path: "/sandbox/tokens" },
  token_revoke: { method: "DELETE", path: "/sandbox/tokens/{tokenId}" },
  webhook_create: { method: "POST", path: "/sandbox/webhooks", keyed: true },
  webhook_list: { method: "GET", path: "/sandbox/webhooks" },
  webhook_get: { method: "GET", path: "/sandbox/webhooks/{webhookId}" },
  webhook_update: { method: "PUT", path: "/sandbox/webhooks/{webhookId}" },
  webhook_delete: { method: "DELETE", path: "/sandbox/webhooks/{webhookId}" },
  webhook_test: { method: "POST", path: "/sandbox/webhooks/{webhookId}/test" },
  webhook_deliveries: { method: "GET", path: "/sandbox/webhooks/{webhookId}/deliveries" },
  audit_list: { method: "GET", path: "/sandbox/audit" },
  audit_verify: { method: "GET", path: "/sandbox/audit/verify" },
};

/** The stable words of the daemon's errors. */
export type ErrorCode =
  /** this is not HTTP as it must be */
  | "bad_request"
  /** the query is malformed, or has a field twice */
  | "bad_query"
  /** the body is no JSON object */
  | "bad_json"
  /** the body is nested too deeply */
  | "json_too_deep"
  /** the body has too many values */
  | "json_too_long"
  /** the body has another type than it may */
  | "bad_content_type"
  /** a token is needed and none was sent */
  | "unauthorized"
  /** the token is not the right one */
  | "invalid_token"
  /** the token was right until its time was over */
  | "token_expired"
  /** the Host header names another host */
  | "host_not_allowed"
  /** web pages of this origin may not call */
  | "origin_not_allowed"
  /** this user may not use the socket */
  | "peer_not_allowed"
  /** there is no such route */
  | "route_not_found"
  /** the route takes other methods; see Allow */
  | "method_not_allowed"
  /** the request line is too long */
  | "uri_too_long"
  /** an Expect header that is not known */
  | "bad_expectation"
  /** the headers are too long or too many */
  | "headers_too_large"
  /** too many requests; see Retry-After */
  | "rate_limited"
  /** another version of HTTP than 1.0 and 1.1 */
  | "http_version"
  /** a field is missing or wrong; the text names it */
  | "invalid"
  /** the request or what it asks for is larger than it may be */
  | "too_large"
  /** it took longer than it may */
  | "timeout"
  /** a failure of ours; the daemon's log has the request */
  | "internal"
  /** this daemon cannot do that */
  | "unsupported"
  /** not now; try again */
  | "unavailable"
  /** the daemon has as many calls, or holds as much of them, as it may; see Retry-After */
  | "busy"
  /** several sandboxes or snapshots have the name in the path; the text lists ids */
  | "name_ambiguous"
  /** Idempotency-Key is empty, too long, or not visible ASCII */
  | "bad_idempotency_key"
  /** the Idempotency-Key came with another request within the last 24 hours */
  | "idempotency_key_reused"
  /** a request with this Idempotency-Key is not done yet; see Retry-After */
  | "idempotency_in_progress"
  /** a request with this Idempotency-Key was begun and its answer is not known any more */
  | "idempotency_unknown"
  /** the token may not do this */
  | "scope_missing"
  /** the token is for some sandboxes only: this is not about one of them, or changes who reaches one */
  | "token_restricted"
  /** there is no token with this id */
  | "token_not_found"
  /** there are as many tokens as there may be */
  | "token_limit"
  /** there is no sandbox with this id or name */
  | "sandbox_not_found"
  /** another sandbox has this name; the text has its id */
  | "name_taken"
  /** there was one, until its timeout was over */
  | "sandbox_expired"
  /** there was one, until somebody removed it */
  | "sandbox_removed"
  /** nothing without an owner has this id */
  | "stray_not_found"
  /** it is paused or stopped */
  | "sandbox_not_running"
  /** it is about to stop, and takes no new commands */
  | "sandbox_draining"
  /** only a paused sandbox can go on */
  | "sandbox_not_paused"
  /** there are as many sandboxes as there may be that are not stopped */
  | "sandbox_limit"
  /** there are as many stopped sandboxes as there may be that did not expire */
  | "stopped_limit"
  /** all sandboxes together have as much memory or as many processes as they may */
  | "machine_full"
  /** what makes sandboxes is being started again */
  | "launcher_lost"
  /** sandboxes have no network on this machine; the text says what is missing */
  | "network_unsupported"
  /** not a network policy; the text says which part of it */
  | "bad_policy"
  /** there is no address left for another sandbox */
  | "network_full"
  /** the sandbox has no place in the network now */
  | "network_not_attached"
  /** the network gateway does not answer and is started again */
  | "gateway_down"
  /** the kernel refused what the network gateway asked for */
  | "gateway_failed"
  /** the sandbox was removed meanwhile */
  | "commit_interrupted"
  /** a patch cannot be applied; the text has its number and path */
  | "patch_failed"
  /** the image has no command of its own */
  | "no_default_command"
  /** not in its present state */
  | "conflict"
  /** there are as many as there may be */
  | "limit"
  /** not a topic, or not a list of topics */
  | "bad_topic"
  /** not the id of an event */
  | "bad_event_id"
  /** the data of an event is more than it may be */
  | "event_too_large"
  /** there is no webhook with this id */
  | "webhook_not_found"
  /** its url, topics or secret are not as they must be */
  | "bad_webhook"
  /** webhooks do not go to this address; see CAY_WEBHOOK_ALLOW */
  | "webhook_target_refused"
  /** there are as many webhooks as there may be */
  | "webhook_limit"
  /** too many messages wait to be sent */
  | "courier_busy"
  /** there is no template with this id or name */
  | "template_not_found"
  /** another template has this name; the text has its id */
  | "template_exists"
  /** it is part of cay and stays as it is */
  | "template_builtin"
  /** there are as many templates as there may be */
  | "template_limit"
  /** it is built again from the directory that it is of */
  | "template_of_directory"
  /** its ready command did not succeed in time; exitCode and output are the last try's */
  | "template_not_ready"
  /** a step failed; command and output tell which and why */
  | "build_failed"
  /** a build has more steps than it may */
  | "too_many_steps"
  /** not a Dockerfile, or one with what is not supported; the text has the line */
  | "bad_dockerfile"
  /** nothing has the name that is to be copied */
  | "no_source"
  /** the Dockerfile has no such stage */
  | "no_stage"
  /** files are to be copied, and none came with the build */
  | "no_context"
  /** the files of a build are more than they may be */
  | "context_too_large"
  /** the machine's own folder, which no image can change */
  | "read_only"
  /** there is no snapshot with this id or name */
  | "snapshot_not_found"
  /** the snapshot is of another sandbox; clone it instead */
  | "snapshot_of_another"
  /** there are as many snapshots as there may be */
  | "snapshot_limit"
  /** the pool has no profile with this id */
  | "pool_profile_not_found"
  /** the pool has such a profile; the text has its id */
  | "pool_profile_exists"
  /** the pool has as many profiles or boxes as it may */
  | "pool_limit"
  /** the sandbox ended before the call did */
  | "agent_lost"
  /** the sandbox does not answer */
  | "agent_timeout"
  /** the sandbox answers nonsense; remove it */
  | "agent_protocol"
  /** it is being committed, or has as many unanswered calls as it may; see Retry-After */
  | "sandbox_busy"
  /** as many follow the sandbox's logs, ports or refusals as may */
  | "too_many_streams"
  /** nothing listens on this port in the sandbox */
  | "port_closed"
  /** the sandbox has no such port on the host */
  | "port_not_found"
  /** the sandbox has this port on the host already */
  | "port_exposed"
  /** another has this port of the host; the text says who */
  | "port_in_use"
  /** there are as many ports on the host as there may be */
  | "port_limit"
  /** the daemon may not listen on this port */
  | "port_not_allowed"
  /** the operator does not allow ports on this address */
  | "address_not_allowed"
  /** the server on this port takes no connection in */
  | "port_busy"
  /** the sandbox has as many processes as it may */
  | "process_limit"
  /** the host's file with the disk of a sandbox or a volume is gone or damaged */
  | "disk_damaged"
  /** the port was not exposed before */
  | "port_not_exposed"
  /** the server in the sandbox answers what is not HTTP as it must be */
  | "bad_answer"
  /** larger than one JSON answer may be; ask for it directly */
  | "answer_too_large"
  /** the server in the sandbox did not answer in time */
  | "proxy_timeout"
  /** the command cannot start in this directory */
  | "bad_cwd"
  /** more than the sandbox may have of this resource */
  | "bad_rlimit"
  /** the sandbox has no such user */
  | "bad_user"
  /** the queue has no job with this id, or has none any more */
  | "job_not_found"
  /** the job is over already */
  | "job_not_pending"
  /** the job is none of those that failed */
  | "job_not_failed"
  /** as many jobs of the sandbox, or of all, wait or run as there may be */
  | "queue_full"
  /** the sandbox lacks the program; the text names it */
  | "interpreter_missing"
  /** the sandbox has no such context, or has it no more */
  | "context_not_found"
  /** the sandbox has as many contexts as it may */
  | "context_limit"
  /** its process has ended, and what it kept is gone */
  | "context_ended"
  /** the code wrote where only its interpreter does; the context was ended */
  | "context_broken"
  /** packages were not installed; output has what was said */
  | "install_failed"
  /** there is no such program in the sandbox */
  | "command_not_found"
  /** the program cannot be executed */
  | "not_executable"
  /** the command was ended because its time was over */
  | "command_timeout"
  /** nobody waited for it any more */
  | "cancelled"
  /** send Upgrade: cay-exec, of a terminal websocket, of a port cay-dial */
  | "upgrade_required"
  /** the key or the version of a WebSocket is missing or wrong */
  | "bad_websocket"
  /** there is no terminal with this id, or it is not kept any more */
  | "terminal_not_found"
  /** the shell of the terminal has ended */
  | "terminal_exited"
  /** this is none of the shells of terminals */
  | "shell_not_allowed"
  /** no channel with this id and key waits for anybody */
  | "channel_not_found"
  /** the terminal was not recorded, or that is not kept any more */
  | "recording_not_found"
  /** there is no command with this id, or it is not kept any more */
  | "exec_not_found"
  /** a command with this execId runs already */
  | "exec_exists"
  /** another caller has the command's input */
  | "exec_attached"
  /** the sandbox has no such log */
  | "log_not_found"
  /** there is no alert with this id */
  | "alert_not_found"
  /** the sandbox has as many alerts as it may */
  | "alert_limit"
  /** no machine has room for another sandbox */
  | "no_capacity"
  /** there is no git in the sandbox; the text says how to get it */
  | "git_missing"
  /** there is no git repository in this directory or above it */
  | "not_a_repository"
  /** git refused; the text has what it said */
  | "git_failed"
  /** this is no URL of a repository */
  | "bad_url"
  /** a branch, a remote or another name that git would take for an option */
  | "bad_ref"
  /** the path leads out of the workspace */
  | "path_traversal"
  /** there is no such file */
  | "file_not_found"
  /** as many callers or directories of the sandbox are watched as may be */
  | "watch_limit"
  /** the sandbox was started by an older cay, which cannot do that; start it again */
  | "agent_too_old"
  /** the file became shorter while it was read */
  | "file_changed"
  /** an attached client sent what it may not */
  | "bad_frame"
  /** too large for one JSON answer; ask for the bytes */
  | "file_too_large"
  /** not a regular file */
  | "not_a_file"
  /** a part of the path is no directory */
  | "not_a_directory"
  /** a directory is there */
  | "is_a_directory"
  /** the sandbox's own rules forbid it */
  | "permission_denied"
  /** the sandbox's disk is full, or the host's is low */
  | "no_space"
  /** content, or a path with pathEncoding base64, is not standard base64 with padding */
  | "bad_base64"
  /** there is no network with this id or name */
  | "network_not_found"
  /** another network has this name; the text has its id */
  | "network_exists"
  /** there are as many networks, or sandboxes in one, as there may be */
  | "network_limit"
  /** the sandbox is in the network already */
  | "network_connected"
  /** the sandbox is not in the network */
  | "network_not_connected"
  /** there is no volume with this id or name */
  | "volume_not_found"
  /** there are as many volumes as there may be */
  | "volume_limit"
  /** sandboxes have it; the text names them */
  | "volume_in_use"
  /** processes have files of it open; they are named */
  | "volume_busy"
  /** a folder of a volume could not be emptied in time; part of it is removed */
  | "delete_incomplete"
  /** the sandbox has it already */
  | "volume_attached"
  /** no sandbox has it, or not this one */
  | "volume_not_attached"
  /** it is attached several times: say which is meant */
  | "volume_ambiguous"
  /** the sandbox has as many mounts as it may */
  | "mount_limit"
  /** something is mounted there, or below it */
  | "mount_path_taken"
  /** it cannot be shown with the sandbox's own ids */
  | "mount_unmappable"
  /** nothing can be mounted there */
  | "bad_mount_path"
  /** subPath is no directory, or leads through a link */
  | "bad_sub_path"
  /** the folder of the host cannot be mounted */
  | "bad_bind"
  /** the operator does not allow this folder of the host */
  | "bind_not_allowed"
  /** not the name of an image, or what it names is damaged */
  | "bad_image"
  /** not an image name */
  | "bad_image_name"
  /** not a platform such as linux/arm64 */
  | "bad_platform"
  /** nothing there can become an image */
  | "bad_path"
  /** the image's configuration cannot be read */
  | "bad_config"
  /** the image's manifest cannot be read */
  | "bad_manifest"
  /** registry_auth cannot be sent to a registry */
  | "bad_registry_auth"
  /** the operator's settings of registries are wrong */
  | "bad_registry_config"
  /** the operator's docker config cannot be read */
  | "bad_docker_config"
  /** what came is not what its digest says */
  | "digest_mismatch"
  /** the archive has no name for the image; send one */
  | "name_missing"
  /** the archive has several images; name one */
  | "several_images"
  /** the id is that of several images */
  | "ambiguous_image"
  /** the operator does not allow this image */
  | "image_not_allowed"
  /** more cpu or memory than the image may have */
  | "image_cap_exceeded"
  /** the name has a meaning that no new image can take */
  | "image_reserved"
  /** insecure is for callers with a token */
  | "insecure_not_allowed"
  /** the registry wants other credentials */
  | "registry_denied"
  /** only for root, on the unix socket */
  | "local_only"
  /** neither here nor in its registry */
  | "image_not_found"
  /** not here, and not pulled without being asked */
  | "image_not_installed"
  /** the image is not made for this platform */
  | "no_platform"
  /** the archive's name for its image is that of another one here */
  | "image_exists"
  /** a sandbox uses it */
  | "image_in_use"
  /** larger than an image may be */
  | "image_too_large"
  /** as many names or records of images as there may be; prune some */
  | "image_limit"
  /** as many pulls as there may be; try again when one is done */
  | "pull_limit"
  /** the image has as many layers as it may */
  | "too_many_layers"
  /** the image worker ended early; try again */
  | "image_worker_died"
  /** the host image cannot be exported */
  | "host_image"
  /** a file of the image has a name that no archive can hold */
  | "whiteout_name"
  /** the registry did not give it; try again */
  | "image_pull_failed"
  | OtherWord;
