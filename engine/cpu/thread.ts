import { MessageChannel, type MessagePort, type ResourceLimits } from "node:worker_threads";
import { newThread, type Program, programOf, type Thread } from "../worker/thread.ts";

/** To the starter: starts a thread with this number, which communicates through `port`. */
export interface Start {
  readonly number: number;
  readonly program: Program;
  readonly data: object;
  readonly limits: ResourceLimits;
  readonly port: MessagePort;
}

/** To the starter: terminates a thread. */
export type Stop = Pick<Start, "number">;

/** From the starter: a thread has ended; `message` is that of its error, if it threw one. */
export interface Ended {
  readonly number: number;
  readonly code: number;
  readonly message?: string;
}

/** Starts a program, with `port` in its data, in a thread that flushes denormals to zero (starter.ts). */
export function startThread(program: Program, data: object, limits: ResourceLimits = {}): Thread {
  starter ??= new Starter((ended) => {
    if (starter === ended) starter = undefined;
  });
  return starter.start(program, data, limits);
}

let starter: Starter | undefined;

class Starter {
  readonly #worker = newThread(programOf(import.meta.url, "starter"));
  readonly #threads = new Map<number, StartedThread>();
  #count = 0;
  #keptAlive = 0;

  /** @param onEnd called when the starter has ended and cannot start further threads */
  constructor(onEnd: (starter: Starter) => void) {
    this.#worker.on("message", ({ number, code, message }: Ended) => {
      this.#threads.get(number)?.ended(message ?? `it exited with code ${code}`);
      this.#threads.delete(number);
    });
    const died = (cause: string) => {
      onEnd(this);
      for (const thread of this.#threads.values()) thread.ended(cause);
      this.#threads.clear();
    };
    this.#worker.on("error", (error) => died(error instanceof Error ? error.message : String(error)));
    this.#worker.on("exit", (code) => died(`it exited with code ${code}`));
    // Does not keep the process running. Called last, because `on` keeps it running.
    this.#worker.unref();
  }

  start(program: Program, data: object, limits: ResourceLimits): Thread {
    const { port1, port2 } = new MessageChannel();
    const number = this.#count++;
    const request: Start = { number, program, data, port: port2, limits };
    this.#worker.postMessage(request, [port2]);
    const thread = new StartedThread(port1, this, number);
    this.#threads.set(number, thread);
    return thread;
  }

  stop(number: number): void {
    this.#worker.postMessage({ number } satisfies Stop);
  }

  /** Keeps the process running for one more thread, or one fewer: the starter reports the end of threads. */
  keepAlive(keptAlive: boolean): void {
    this.#keptAlive += keptAlive ? 1 : -1;
    if (this.#keptAlive > 0) this.#worker.ref();
    else this.#worker.unref();
  }
}

class StartedThread implements Thread {
  readonly #port: MessagePort;
  readonly #starter: Starter;
  readonly #number: number;
  readonly #end: Promise<void>;
  #onExit: (cause: string) => void = () => {};
  #resolveEnd = () => {};
  #isKeptAlive = false;
  #hasEnded = false;

  constructor(port: MessagePort, starter: Starter, number: number) {
    this.#port = port;
    this.#starter = starter;
    this.#number = number;
    this.#end = new Promise((resolve) => {
      this.#resolveEnd = resolve;
    });
  }

  listen(message: (value: unknown) => void, exited: (cause: string) => void): void {
    this.#port.on("message", message);
    this.#port.on("messageerror", (error) => exited(error.message));
    this.#port.unref();
    this.#onExit = exited;
  }

  post(value: unknown, transferred: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(value, transferred);
  }

  keepAlive(keptAlive: boolean): void {
    if (keptAlive === this.#isKeptAlive || this.#hasEnded) return;
    this.#isKeptAlive = keptAlive;
    this.#starter.keepAlive(keptAlive);
  }

  terminate(): Promise<void> {
    this.keepAlive(true);
    this.#starter.stop(this.#number);
    return this.#end;
  }

  ended(cause: string): void {
    this.#port.close();
    this.#onExit(cause);
    this.keepAlive(false);
    this.#hasEnded = true;
    this.#resolveEnd();
  }
}
