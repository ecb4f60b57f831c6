import { MessageChannel, type MessagePort, type ResourceLimits, Worker, type WorkerOptions } from "node:worker_threads";

/** A worker thread, as seen by its client. */
export interface Thread {
  /** Sets the callbacks for messages and for the end of the thread. */
  listen(message: (value: unknown) => void, exited: (cause: string) => void): void;
  post(value: unknown, transferred?: readonly ArrayBuffer[]): void;
  /** Whether the thread keeps the process running. */
  keepAlive(keptAlive: boolean): void;
  /** Resolves when the thread has ended. */
  terminate(): Promise<void>;
}

/** The program of a thread. */
export interface Program {
  readonly file: string;
  /** URL of the TypeScript file that `file` imports. */
  readonly source?: string;
}

/**
 * The program `name` in the folder of a module. In a checkout it is TypeScript, which a thread can load only through
 * `from-source.mjs`.
 */
export const programOf = (moduleUrl: string, name: string): Program =>
  moduleUrl.endsWith(".ts")
    ? {
        file: new URL("./from-source.mjs", import.meta.url).href,
        source: new URL(`./${name}.ts`, moduleUrl).href,
      }
    : { file: new URL(`./${name}.js`, moduleUrl).href };

export const newThread = ({ file, source }: Program, data: object = {}, options: WorkerOptions = {}): Worker =>
  new Worker(new URL(file), { ...options, workerData: { ...data, source } });

/** Starts a program, with `port` in its data, in a thread. */
export function startPlainThread(program: Program, data: object, limits: ResourceLimits = {}): Thread {
  const { port1, port2 } = new MessageChannel();
  const options = { transferList: [port2], resourceLimits: limits };
  return new PlainThread(newThread(program, { ...data, port: port2 }, options), port1);
}

class PlainThread implements Thread {
  readonly #worker: Worker;
  readonly #port: MessagePort;

  constructor(worker: Worker, port: MessagePort) {
    this.#worker = worker;
    this.#port = port;
  }

  listen(message: (value: unknown) => void, exited: (cause: string) => void): void {
    let cause: string | undefined;
    this.#port.on("message", message);
    this.#port.on("messageerror", (error) => exited(error.message));
    this.#port.unref();
    this.#worker.on("error", (error) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    this.#worker.on("exit", (code) => {
      this.#port.close();
      exited(cause ?? `it exited with code ${code}`);
    });
    // Does not keep the process running. Called last, because `on` keeps it running.
    this.#worker.unref();
  }

  post(value: unknown, transferred: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(value, transferred);
  }

  keepAlive(keptAlive: boolean): void {
    if (keptAlive) this.#worker.ref();
    else this.#worker.unref();
  }

  async terminate(): Promise<void> {
    this.keepAlive(true);
    await this.#worker.terminate();
  }
}
