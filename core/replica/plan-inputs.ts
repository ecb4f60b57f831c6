import type { PlanValidity } from "../plugins/index.ts";

/**
 * Records the inputs that a plan read, to determine whether they have changed since (`PlanValidity`). The replica calls it for
 * the scheduler's reads and actions, so schedulers need not declare them.
 */
export class PlanInputs {
  /** Return value of the scheduler's `plan`. */
  validity: PlanValidity;
  readsClock = false;
  readsQueue = false;
  /** The inputs have changed: the plan admitted, preempted or refused a request, or deleted a prefix, or a request arrived. */
  changes = false;
  /** Tick of the cache at the first read of this plan; −1 = not read. */
  #cacheTick = -1;
  readonly #cache: { readonly tick: number };
  readonly #seesArrivals: boolean;

  /** `cache.tick` advances with every operation of the cache; `seesArrivals`: the scheduler has `arrived`. */
  constructor(cache: { readonly tick: number }, seesArrivals: boolean) {
    this.#cache = cache;
    this.#seesArrivals = seesArrivals;
  }

  /** A plan begins. */
  clear(): void {
    this.validity = undefined;
    this.readsClock = this.readsQueue = this.changes = false;
    this.#cacheTick = -1;
  }

  /** Only the first read is recorded: operations between it and later reads of the plan have changed the cache. */
  readCache(): void {
    if (this.#cacheTick < 0) this.#cacheTick = this.#cache.tick;
  }

  /** A request arrives after the plan. */
  arrived(): void {
    if (this.readsQueue || this.#seesArrivals) this.changes = true;
  }

  /** Whether all inputs of the last plan are unchanged. */
  get areUnchanged(): boolean {
    if (this.validity === undefined || this.changes || this.readsClock) return false;
    return this.#cacheTick < 0 || this.#cacheTick === this.#cache.tick;
  }
}
