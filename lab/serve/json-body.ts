import type { IncomingMessage } from "node:http";
import { ApiError } from "./api-error.ts";

/** Most bytes of a request's body. */
const mostBytes = 8 * 2 ** 20;
/** Longest time for which the rest of a body that is too large is discarded before the response. */
const discardMs = 5000;

/** The body of a request. @throws ApiError if it is too large, or not JSON in UTF-8 */
export async function jsonBody(request: IncomingMessage): Promise<unknown> {
  const bytes = await bodyOf(request);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new ApiError(400, "the body is not valid UTF-8");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, `the body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const { "content-length": length = "0", "content-encoding": encoding = "identity" } = request.headers;
  if (encoding !== "identity") throw new ApiError(415, `the content encoding is ${encoding}, expected none`);
  if (Number(length) > mostBytes) return tooLarge(request);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const add = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= mostBytes) return;
      request.off("data", add);
      chunks.length = 0;
      tooLarge(request).catch(reject);
    };
    request.on("data", add);
    request.on("end", () => resolve(Buffer.concat(chunks)));
    request.on("close", () => reject(new ApiError(400, "the client has disconnected")));
    request.on("error", reject);
  });
}

/** Discards the rest of the body, because many clients read the response only after they have sent everything. @throws ApiError */
async function tooLarge(request: IncomingMessage): Promise<never> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve) => {
    timer = setTimeout(resolve, discardMs);
    request.once("close", resolve).once("end", resolve).resume();
  });
  clearTimeout(timer);
  throw new ApiError(413, `the body is too large, expected at most ${mostBytes} bytes`);
}
