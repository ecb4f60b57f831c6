import type { PlanValidity } from "../plugins/index.ts";

/**
 * Records the inputs that a plan read, to determine whether they have changed since (`PlanValidity`). The replica calls it for
 * the scheduler's reads and actions, so schedulers need not declare them. Reads after the plan, by routers and observers, do not
 * make the plan depend on anything.
 */
export class PlanInputs {
  readsClock = false;
  readsQueue = false;
  /** The inputs have changed: the plan admitted, preempted or refused a request, or deleted a prefix, or a request arrived. */
  changes = false;
  /** Return value of the scheduler's `plan`; undefined as well if the plan read the clock. */
  #validity: PlanValidity;
  #dependsOnArrivals = false;
  /** Tick of the cache at the first read; −1 = not read. */
  #cacheTick = -1;
  /** The same at the end of the plan. */
  #plannedTick = -1;
  readonly #cache: { readonly tick: number };
  readonly #seesArrivals: boolean;

  /** `cache.tick` advances with every operation of the cache; `seesArrivals`: the scheduler has `arrived`. */
  constructor(cache: { readonly tick: number }, seesArrivals: boolean) {
    this.#cache = cache;
    this.#seesArrivals = seesArrivals;
  }

  /** A plan begins. */
  clear(): void {
    this.readsClock = this.readsQueue = this.changes = false;
    this.#cacheTick = -1;
  }

  /** The plan ends. */
  planned(validity: PlanValidity): void {
    this.#validity = this.readsClock ? undefined : validity;
    this.#dependsOnArrivals = this.#seesArrivals || this.readsQueue;
    this.#plannedTick = this.#cacheTick;
  }

  /** Only the first read is recorded: operations between it and later reads of the plan have changed the cache. */
  readCache(): void {
    if (this.#cacheTick < 0) this.#cacheTick = this.#cache.tick;
  }

  /** A request arrives after the plan. */
  arrived(): void {
    if (this.#dependsOnArrivals) this.changes = true;
  }

  /** Whether all inputs of the last plan are unchanged. */
  get areUnchanged(): boolean {
    if (this.#validity === undefined || this.changes) return false;
    return this.#plannedTick < 0 || this.#plannedTick === this.#cache.tick;
  }
}
