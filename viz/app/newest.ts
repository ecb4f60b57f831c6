/**
 * One question at a time: while one is under way only the newest that came meanwhile waits. Answers are shown one a
 * frame, in the order of their questions; what comes after the view is left is dropped.
 */
export class Newest<Question, Answer> {
  readonly #ask: (question: Question) => Promise<Answer>;
  readonly #show: (answer: Answer, question: Question) => void;
  readonly #fail: (error: Error) => void;
  readonly #left: AbortSignal;
  #waiting: { readonly question: Question } | undefined;
  #isBusy = false;

  constructor(
    ask: (question: Question) => Promise<Answer>,
    show: (answer: Answer, question: Question) => void,
    fail: (error: Error) => void,
    left: AbortSignal,
  ) {
    this.#ask = ask;
    this.#show = show;
    this.#fail = fail;
    this.#left = left;
  }

  ask(question: Question): void {
    this.#waiting = { question };
    if (!this.#isBusy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting && !this.#left.aborted) {
      const { question } = this.#waiting;
      this.#waiting = undefined;
      try {
        const answer = await this.#ask(question);
        await new Promise(requestAnimationFrame);
        if (!this.#left.aborted) this.#show(answer, question);
      } catch (error) {
        if (!this.#left.aborted) this.#fail(error as Error);
      }
    }
    this.#isBusy = false;
  }
}
