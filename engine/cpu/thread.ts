import { MessageChannel, type MessagePort, type ResourceLimits, Worker, type WorkerOptions } from "node:worker_threads";

/** A worker thread, as its client uses it. */
export interface Thread {
  /** What it says, and why it is gone. */
  listen(message: (value: unknown) => void, gone: (cause: string) => void): void;
  post(value: unknown): void;
  /** Whether the program waits for it. */
  hold(isHeld: boolean): void;
  /** Until it has ended. */
  terminate(): Promise<void>;
}

/** The program of a thread. */
export interface Program {
  readonly file: string;
  /** What it reads in turn. */
  readonly source?: string;
}

/** To the starter: a thread to be started, its number, and where it is talked to. */
export interface Start {
  readonly number: number;
  readonly program: Program;
  readonly data: object;
  readonly limits: ResourceLimits;
  readonly port: MessagePort;
}

/** To the starter: a thread is to end. */
export type Stop = Pick<Start, "number">;

/** From the starter: a thread has ended; it threw something, if there is a message. */
export interface Ended {
  readonly number: number;
  readonly code: number;
  readonly message?: string;
}

/** A program of this folder; in a checkout it is TypeScript, which a thread can read only with help. */
export const programOf = (name: string): Program =>
  import.meta.url.endsWith(".ts")
    ? { file: new URL("./from-source.mjs", import.meta.url).href, source: `./${name}.ts` }
    : { file: new URL(`./${name}.js`, import.meta.url).href };

export const newThread = ({ file, source }: Program, data: object = {}, options: WorkerOptions = {}): Worker =>
  new Worker(new URL(file), { ...options, workerData: { ...data, source } });

/** Starts a program, with `port` in its data, in a thread that takes the smallest numbers for 0 (starter.ts). */
export function startThread(program: Program, data: object, limits: ResourceLimits = {}): Thread {
  starter ??= new Starter((gone) => {
    if (starter === gone) starter = undefined;
  });
  return starter.start(program, data, limits);
}

let starter: Starter | undefined;

class Starter {
  readonly #worker = newThread(programOf("starter"));
  readonly #threads = new Map<number, StartedThread>();
  #count = 0;
  #held = 0;

  /** @param gone called when it can start no further threads */
  constructor(gone: (starter: Starter) => void) {
    this.#worker.on("message", ({ number, code, message }: Ended) => {
      this.#threads.get(number)?.ended(message ?? `it exited with code ${code}`);
      this.#threads.delete(number);
    });
    const died = (cause: string) => {
      gone(this);
      for (const thread of this.#threads.values()) thread.ended(cause);
      this.#threads.clear();
    };
    this.#worker.on("error", (error) => died(error instanceof Error ? error.message : String(error)));
    this.#worker.on("exit", (code) => died(`it exited with code ${code}`));
    // A program that has ended otherwise does not wait for it; last, for to listen is to wait.
    this.#worker.unref();
  }

  start(program: Program, data: object, limits: ResourceLimits): Thread {
    const { port1, port2 } = new MessageChannel();
    const number = this.#count++;
    const ask: Start = { number, program, data, port: port2, limits };
    this.#worker.postMessage(ask, [port2]);
    const thread = new StartedThread(port1, this, number);
    this.#threads.set(number, thread);
    return thread;
  }

  stop(number: number): void {
    this.#worker.postMessage({ number } satisfies Stop);
  }

  /** For one thread more, or less: it is this thread that says when another one has ended. */
  hold(isHeld: boolean): void {
    this.#held += isHeld ? 1 : -1;
    if (this.#held > 0) this.#worker.ref();
    else this.#worker.unref();
  }
}

class StartedThread implements Thread {
  readonly #port: MessagePort;
  readonly #starter: Starter;
  readonly #number: number;
  readonly #end: Promise<void>;
  #gone: (cause: string) => void = () => {};
  #resolveEnd = () => {};
  #isHeld = false;
  #hasEnded = false;

  constructor(port: MessagePort, starter: Starter, number: number) {
    this.#port = port;
    this.#starter = starter;
    this.#number = number;
    this.#end = new Promise((resolve) => {
      this.#resolveEnd = resolve;
    });
  }

  listen(message: (value: unknown) => void, gone: (cause: string) => void): void {
    this.#port.on("message", message);
    this.#port.on("messageerror", (error) => gone(error.message));
    this.#port.unref();
    this.#gone = gone;
  }

  post(value: unknown): void {
    this.#port.postMessage(value);
  }

  hold(isHeld: boolean): void {
    if (isHeld === this.#isHeld || this.#hasEnded) return;
    this.#isHeld = isHeld;
    this.#starter.hold(isHeld);
  }

  terminate(): Promise<void> {
    this.hold(true);
    this.#starter.stop(this.#number);
    return this.#end;
  }

  ended(cause: string): void {
    this.#port.close();
    this.#gone(cause);
    this.hold(false);
    this.#hasEnded = true;
    this.#resolveEnd();
  }
}
