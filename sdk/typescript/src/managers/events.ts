import { ConnectionError } from "../errors.js";
import { EventStream } from "../events.js";
import type { Event, EventHistoryInput, EventList, StreamEventsInput } from "../generated.js";
import { type CallOptions, split, type With } from "../options.js";
import { OfDaemon } from "./base.js";

/** What happens to sandboxes and around them. */
export class EventManager extends OfDaemon {
  /** What was, the newest first. */
  history(options: With<EventHistoryInput> = {}): Promise<EventList> {
    const [fields, call] = split(options);
    return this.client.call("event_history", fields, call);
  }

  /** An event of the caller's own. */
  publish(
    topic: string,
    sandboxId: string,
    data?: Record<string, unknown>,
    options: CallOptions = {},
  ): Promise<Event> {
    return this.client.call("event_publish", { topic, sandboxId, data }, options);
  }

  /** What happens from now on; none is missed when the daemon is restarted meanwhile. */
  stream(options: With<StreamEventsInput> = {}): EventStream<Event> {
    const [fields, call] = split(options);
    const client = this.client;
    async function* follow(signal: AbortSignal): AsyncGenerator<Event, undefined> {
      const patience = client.patience(signal);
      let input: StreamEventsInput = fields;
      for (;;) {
        let failure: unknown;
        try {
          for await (const event of client.events("stream_events", input, { ...call, signal })) {
            patience.reset();
            input = { ...fields, since: undefined, lastEventId: event.id };
            yield event;
          }
          failure = new ConnectionError(
            "connection_lost",
            "the events ended",
            { method: "GET", path: "/sandbox/stream/events" },
            false,
          );
        } catch (error) {
          if (!(error instanceof ConnectionError) || error.unsent) throw error;
          failure = error;
        }
        await patience.after(failure);
      }
    }
    return new EventStream(async (signal) => follow(signal), call.signal);
  }
}
