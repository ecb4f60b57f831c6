/**
 * Fetches with one request in flight: of the inputs requested meanwhile only the latest is kept. Responses are shown at most
 * once per frame, in the order of their requests, and discarded after `signal` is aborted.
 */
export class LatestRequest<Input, Response> {
  readonly #fetch: (input: Input) => Promise<Response>;
  readonly #show: (response: Response) => void;
  readonly #fail: (error: Error) => void;
  readonly #signal: AbortSignal;
  #pending: { readonly input: Input } | undefined;
  #isFetching = false;

  constructor(
    fetch: (input: Input) => Promise<Response>,
    show: (response: Response) => void,
    fail: (error: Error) => void,
    signal: AbortSignal,
  ) {
    this.#fetch = fetch;
    this.#show = show;
    this.#fail = fail;
    this.#signal = signal;
  }

  request(input: Input): void {
    this.#pending = { input };
    if (!this.#isFetching) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isFetching = true;
    while (this.#pending && !this.#signal.aborted) {
      const { input } = this.#pending;
      this.#pending = undefined;
      try {
        const response = await this.#fetch(input);
        await new Promise(requestAnimationFrame);
        if (!this.#signal.aborted) this.#show(response);
      } catch (error) {
        if (!this.#signal.aborted) this.#fail(error as Error);
      }
    }
    this.#isFetching = false;
  }
}
