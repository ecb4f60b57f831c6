/** A request that is refused: the HTTP status and one line with the reason. */
export class Refusal extends Error {
  override name = "Refusal";
  readonly status: number;

  constructor(status: 400 | 403 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 503, message: string) {
    super(message);
    this.status = status;
  }
}
