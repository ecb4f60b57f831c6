import { InputError } from "../../core/errors.ts";

/** An error response, in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(
    status: number,
    message: string,
    { code = null, param = null }: { code?: string | null; param?: string | null } = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }

  get body() {
    const { message, status, param, code } = this;
    return { error: { message, type: typeOf(status), param, code } };
  }
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  if (status === 503) return "service_unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** Any error as a response: an invalid request is the client's error, errors of express have a status, all others are the server's. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof InputError) {
    const isTooLong = /exceed the (model's|cache's)/.test(error.message);
    return new ApiError(400, error.message, { code: isTooLong ? "context_length_exceeded" : null });
  }
  const { status, message } = error as { readonly status?: unknown; readonly message?: unknown };
  const text = String(message ?? error).split("\n")[0];
  if (typeof status === "number" && status >= 400 && status < 500) return new ApiError(status, text);
  return new ApiError(500, text);
}
