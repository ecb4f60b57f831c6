import { PolicyError } from "../errors.ts";

/** @throws PolicyError if a router's choice is not one of its replicas */
export function checkRoute(number: number, replicas: number): void {
  if (Number.isInteger(number) && number >= 0 && number < replicas) return;
  throw new PolicyError(`the router chose replica ${number} of ${replicas}`);
}
