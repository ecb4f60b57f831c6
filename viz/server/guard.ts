import type { NextFunction, Request, Response } from "express";
import helmet from "helmet";
import { Refusal } from "./refusal.ts";

const names = ["127.0.0.1", "localhost", "[::1]"];

/**
 * Refuses requests of pages of other sites: under another host name (DNS rebinding) or cross-site.
 * @throws Refusal
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
  // Links from other sites to the page, and navigation to anything that is read, are allowed; subresource requests are not.
  const isVisit = isRead && (site === "none" || !request.path.toLowerCase().startsWith("/api/"));
  if (!isVisit && site !== undefined && site !== "same-origin")
    throw new Refusal(403, `the request is ${JSON.stringify(site)}, expected one from the page itself`);
  next();
}

/** The page loads nothing from other sites and is not framed by them. Plot sets styles in the page. */
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
