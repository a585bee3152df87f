/** What every call takes beside its own fields. */
export interface CallOptions {
  /** Ends the call; what it had started in a sandbox ends too. The call rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** How long to wait for the answer, in place of the client's own; 0 = as long as it takes. */
  timeoutMs?: number | undefined;
  /** In place of a random one, for calls that make something: the same key makes it only once. */
  idempotencyKey?: string | undefined;
}

/** Fields of an operation that callers may add to, and what every call takes. */
export type With<Fields> = Partial<Fields> & CallOptions;

/** Takes what is for the call out of what is for the daemon. */
export function split<T extends CallOptions>(
  options: T | undefined,
): [Omit<T, keyof CallOptions>, CallOptions] {
  if (!options) return [{} as T, {}];
  const { signal, timeoutMs, idempotencyKey, ...fields } = options;
  return [fields, { signal, timeoutMs, idempotencyKey }];
}

/** Waits; an abort rejects with its reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Waits between tries, longer each time, until all of it took too long; then the failure is final. */
export class Patience {
  readonly #ms: number;
  readonly #signal: AbortSignal | undefined;
  #since = 0;
  #tries = 0;

  constructor(ms: number, signal?: AbortSignal) {
    this.#ms = ms;
    this.#signal = signal;
  }

  /** It went on: the next failure is the first again. */
  reset(): void {
    this.#tries = 0;
  }

  /** Waits, or throws the error when that has been done for long enough. */
  async after(error: unknown): Promise<void> {
    if (this.#tries === 0) this.#since = Date.now();
    const wait = Math.min(20 * 2 ** this.#tries++, 500);
    if (Date.now() - this.#since + wait > this.#ms) throw error;
    await sleep(wait, this.#signal);
  }
}
