/** Code of a plug-in file. */
export interface PluginCode {
  readonly file: string;
  /** The text of a call in messages, such as "victim() at request 17". */
  describe(method: string): string;
}

/** A call of plug-in code that has not returned. */
export interface RunningCall {
  readonly code: PluginCode;
  readonly method: string;
  /** Different for each call. */
  readonly number: number;
}

/**
 * The running calls of plug-in code. They nest, because a plug-in may call the cache, which calls another plug-in. A thread
 * that watches them reads `outermost`; it allocates nothing and needs no clock.
 */
class RunningCalls {
  /** Number of the outermost call; 0 while none is running, -1 if then memory is not watched either. Shared by threads. */
  readonly outermost = new Int32Array(new SharedArrayBuffer(4));
  readonly #codes: PluginCode[] = [];
  readonly #methods: string[] = [];
  readonly #numbers: number[] = [];
  #depth = 0;
  #begun = 0;
  #awaited: RunningCall | undefined;
  #idle: 0 | -1 = 0;

  enter(code: PluginCode, method: string): void {
    const depth = this.#depth++;
    const number = ++this.#begun;
    this.#codes[depth] = code;
    this.#methods[depth] = method;
    this.#numbers[depth] = number;
    if (depth === 0) this.outermost[0] = number;
  }

  leave(): void {
    if (--this.#depth === 0) this.#publish();
  }

  /** A call that returns a promise is running until the promise is settled. One such call is running at a time. */
  async during<Result>(code: PluginCode, method: string, call: () => Promise<Result>): Promise<Result> {
    const own = { code, method, number: ++this.#begun };
    this.#await(own);
    try {
      return await call();
    } finally {
      if (this.#awaited === own) this.#await(undefined);
    }
  }

  #await(call: RunningCall | undefined): void {
    this.#awaited = call;
    if (this.#depth === 0) this.#publish();
  }

  /** While `act` runs, only the calls inside it are watched. */
  async unwatched<Result>(act: () => Promise<Result>): Promise<Result> {
    this.#idle = -1;
    this.#publish();
    try {
      return await act();
    } finally {
      this.#idle = 0;
      this.#publish();
    }
  }

  #publish(): void {
    this.outermost[0] = this.#awaited?.number ?? this.#idle;
  }

  /** The call whose promise is not settled. */
  get awaited(): RunningCall | undefined {
    return this.#awaited;
  }

  /** From the outermost to the innermost call. */
  get all(): readonly RunningCall[] {
    const nested = this.#codes
      .slice(0, this.#depth)
      .map((code, i) => ({ code, method: this.#methods[i], number: this.#numbers[i] }));
    return this.#awaited ? [this.#awaited, ...nested] : nested;
  }
}

export const runningCalls = new RunningCalls();
