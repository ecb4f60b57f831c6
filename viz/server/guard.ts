import type { NextFunction, Request, Response } from "express";
import helmet from "helmet";
import { Refusal } from "./refusal.ts";

const names = ["127.0.0.1", "localhost", "[::1]"];

/**
 * A page elsewhere must not reach this server by a name of its own (DNS rebinding), nor with a request from there
 * (cross-site). @throws Refusal
 */
export function guard(request: Request, _response: Response, next: NextFunction): void {
  const { host = "", origin, "sec-fetch-site": site } = request.headers;
  const port = request.socket.localPort;
  const own = names.flatMap((name) => (port === 80 ? [name, `${name}:80`] : [`${name}:${port}`]));
  if (!own.includes(host.toLowerCase()))
    throw new Refusal(403, `the Host is ${JSON.stringify(host.slice(0, 100))}, expected ${own[0]} or ${own[1]}`);
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`)
    throw new Refusal(403, `the Origin is ${JSON.stringify(origin.slice(0, 100))}, expected http://${host}`);
  const isRead = request.method === "GET" || request.method === "HEAD";
  // A link may lead to the page, and people to anything that is read; what another site loads would cost work or a connection.
  const isVisit = isRead && (site === "none" || !request.path.toLowerCase().startsWith("/api/"));
  if (!isVisit && site !== undefined && site !== "same-origin")
    throw new Refusal(403, `the request is ${JSON.stringify(site)}, expected one from the page itself`);
  next();
}

/** The page loads nothing from elsewhere, and nothing elsewhere shows it. Plot sets styles in the page. */
export const headers = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'self'"],
      styleSrc: ["'self'", "'unsafe-inline'"],
      imgSrc: ["'self'", "data:", "blob:"],
      objectSrc: ["'none'"],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
  strictTransportSecurity: false,
});
