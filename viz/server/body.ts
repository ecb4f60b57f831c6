import type { NextFunction, Request, Response } from "express";
import { Refusal } from "./refusal.ts";

/** @throws Refusal if the content type is anything but JSON, which a form of another site cannot send */
export function onlyJson(request: Request, _response: Response, next: NextFunction): void {
  if (!request.is("application/json")) throw new Refusal(415, "the content type is not application/json");
  next();
}
