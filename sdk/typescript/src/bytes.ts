import type { Writable } from "node:stream";

/** What can be sent as the bytes of a file: text becomes UTF-8. */
export type Content =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

/** The pieces of a web stream; who stops early cancels it. */
export async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = stream.getReader();
  let done = false;
  try {
    for (;;) {
      const got = await reader.read();
      if (got.done) break;
      yield got.value;
    }
    done = true;
  } finally {
    if (!done) await reader.cancel().catch(() => undefined);
    reader.releaseLock();
  }
}

/** Content as something that can be sent: at once where it is in memory, else piece by piece. */
export function bodyOf(content: Content): Uint8Array | AsyncIterable<Uint8Array> {
  if (typeof content === "string") return new TextEncoder().encode(content);
  if (content instanceof Uint8Array) return content;
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  if (content instanceof Blob) return piecesOf(content.stream());
  if (content instanceof ReadableStream) return piecesOf(content);
  return content;
}

/** A web stream of pieces that come; cancelling it ends where they come from. */
export function streamOf(pieces: AsyncIterator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const got = await pieces.next();
      if (got.done) controller.close();
      else controller.enqueue(got.value);
    },
    async cancel() {
      await pieces.return?.();
    },
  });
}

/** Pieces in one. */
export function join(pieces: Uint8Array[]): Uint8Array {
  let size = 0;
  for (const piece of pieces) size += piece.length;
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** All pieces in one. */
export async function gather(pieces: AsyncIterable<Uint8Array>, length?: number): Promise<Uint8Array> {
  if (length === undefined) {
    const all: Uint8Array[] = [];
    for await (const piece of pieces) all.push(piece);
    return join(all);
  }
  // The length is known: nothing is there twice.
  const all = new Uint8Array(length);
  let at = 0;
  for await (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return at === length ? all : all.subarray(0, at);
}

/** Waits until a stream that is full takes more, or has ended. */
export function room(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) return resolve();
    const done = () => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    stream.on("drain", done).on("close", done);
  });
}
