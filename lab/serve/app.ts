import { createHash, timingSafeEqual } from "node:crypto";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { guard } from "../../viz/server/guard.ts";
import { ApiError, apiErrorOf } from "./api-error.ts";
import { type ApiRequest, chatRequest, completionRequest } from "./api-request.ts";
import { jsonBody } from "./json-body.ts";
import type { ModelServer } from "./model-server.ts";
import { respond, sendJson } from "./respond.ts";
import { Sessions } from "./sessions.ts";

export interface AppOptions {
  /** Clients must send one of these as a bearer token; empty: none is needed. */
  readonly apiKeys: readonly string[];
  /** Most HTTP requests in progress, waiting ones included. */
  readonly maxRequests: number;
  /** Most stateful sessions. */
  readonly sessions: number;
  /** Reports an error of the server itself. */
  report(error: Error): void;
}

/** HTTP requests in progress, and whether new ones are refused. */
export class Traffic {
  active = 0;
  isDraining = false;
  #onIdle: () => void = () => {};

  begin(): void {
    this.active++;
  }

  end(): void {
    if (--this.active === 0) this.#onIdle();
  }

  /** Resolves when no request is in progress. */
  async idle(): Promise<void> {
    if (this.active > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
  }
}

/** The OpenAI-compatible API of a model. */
export function serverApp(server: ModelServer, traffic: Traffic, options: AppOptions): Express {
  const { apiKeys, maxRequests } = options;
  const app = express();
  app.disable("x-powered-by").disable("etag").enable("case sensitive routing").set("query parser", "simple");
  app.get("/health", (_request, response) => {
    response.status(traffic.isDraining ? 503 : 200).end();
  });
  app.use(apiKeys.length > 0 ? keyCheck(apiKeys) : guard);
  app.get("/metrics", async (_request, response) => {
    response.type(server.metrics.contentType).send(await server.metrics.text());
  });
  const { model, created } = server;
  const described = {
    id: model,
    object: "model",
    created,
    owned_by: "kvlab",
    root: model,
    max_model_len: server.maxTokens,
  };
  app.get("/v1/models", (_request, response) => {
    response.json({ object: "list", data: [described] });
  });
  app.get("/v1/models/:name", (request, response) => {
    checkModel(request.params.name, model);
    response.json(described);
  });
  const admit = (_request: Request, response: Response, next: NextFunction) => {
    if (traffic.isDraining) throw new ApiError(503, "the server is shutting down");
    if (traffic.active >= maxRequests) {
      response.set("retry-after", "1");
      throw new ApiError(429, `${maxRequests} requests are in progress; try again later`, {
        code: "rate_limit_exceeded",
      });
    }
    traffic.begin();
    response.once("close", () => traffic.end());
    next();
  };
  const sessions = new Sessions(options.sessions);
  app.delete("/v1/sessions/:id", (request, response) => {
    if (!sessions.remove(request.params.id)) throw new ApiError(404, "there is no such session");
    response.status(204).end();
  });
  const body = [admit, onlyJson];
  const route = (path: string, parse: (body: unknown) => ApiRequest) => {
    app.post(path, body, async (request: Request, response: Response) => {
      const parsed = parse(await jsonBody(request));
      checkModel(parsed.model, model);
      const turn = sessions.begin(parsed);
      try {
        const prepared = await server.prepare(parsed, turn);
        if (response.destroyed) return;
        const texts = await respond(prepared, response, server.generator);
        if (texts) turn?.answered(texts[0]);
      } finally {
        turn?.end();
      }
    });
    app.all(path, (request) => {
      throw new ApiError(405, `${request.method} is not allowed for ${path}, expected POST`);
    });
  };
  route("/v1/completions", completionRequest);
  route("/v1/chat/completions", chatRequest);
  app.use((request) => {
    throw new ApiError(404, `there is no ${request.method} ${request.path.slice(0, 100)}`);
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    const apiError = apiErrorOf(error);
    const { status, body } = apiError;
    server.metrics.rejected(status);
    if (status >= 500 && !(error instanceof ApiError)) options.report(error as Error);
    if (response.headersSent || response.destroyed) return void response.destroy();
    // The rest of the body is not read.
    if (status === 413) response.set("connection", "close");
    sendJson(response, status, body);
  });
  return app;
}

function keyCheck(apiKeys: readonly string[]) {
  // Digests of equal length, so that the time of a comparison does not depend on the key.
  const digest = (text: string) => createHash("sha256").update(text).digest();
  const digests = apiKeys.map(digest);
  return (request: Request, _response: Response, next: NextFunction) => {
    const [, given = ""] = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "") ?? [];
    const actual = digest(given);
    if (!digests.some((one) => timingSafeEqual(one, actual)))
      throw new ApiError(401, "the API key is missing or wrong", { code: "invalid_api_key" });
    next();
  };
}

function checkModel(given: string | undefined, model: string): void {
  if (given === undefined || given === model) return;
  throw new ApiError(
    404,
    `there is no model ${JSON.stringify(given.slice(0, 200))}; this server has ${JSON.stringify(model)}`,
    {
      ...{ code: "model_not_found", param: "model" },
    },
  );
}

function onlyJson(request: Request, _response: Response, next: NextFunction): void {
  if (!request.is("application/json")) throw new ApiError(415, "the content type is not application/json");
  next();
}
