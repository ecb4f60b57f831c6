import type { PlanValidity } from "../plugins/index.ts";

/**
 * The inputs that a plan used, to find out whether the next plan would have the same ones (`PlanValidity`). The replica
 * fills it from the scheduler's reads and actions, so that no scheduler has to derive it.
 */
export class PlanInputs {
  /** What the scheduler returned: whether its own state leaves the plan as it is. */
  validity: PlanValidity;
  readsClock = false;
  readsQueue = false;
  /** The plan admitted, preempted or refused a request, or deleted a prefix: it changed its own inputs. */
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

  /** The first read counts: a later one within the plan may follow an operation that the first one did not see. */
  readCache(): void {
    if (this.#cacheTick < 0) this.#cacheTick = this.#cache.tick;
  }

  /** A request arrives after the plan. */
  arrived(): void {
    if (this.readsQueue || this.#seesArrivals) this.changes = true;
  }

  /** Whether a plan made now would read what the last one read. */
  get areUnchanged(): boolean {
    if (this.validity === undefined || this.changes || this.readsClock) return false;
    return this.#cacheTick < 0 || this.#cacheTick === this.#cache.tick;
  }
}
