import type { RouterConfig } from "../../core/replica/compose.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { Hardware } from "../../sim/cost/hardware.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import type { Efficiency } from "../../sim/cost/roofline.ts";

/** What is simulated: an engine on its hardware, how many of them, and how requests come. */
export interface Simulated {
  readonly model: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel: number;
  readonly efficiency: Efficiency;
  readonly kvDtype: string;
  readonly kvBytesPerToken: number;
  readonly gpuMemory: number;
  readonly swapSpace: number;
  readonly costFile: string | undefined;
  readonly replicas: number;
  readonly router: Pick<RouterConfig, "router" | "routerOptions">;
  readonly loop: "open" | "closed";
  readonly spread: "none" | "uniform";
  /** Tokens that clients ask for at least. */
  readonly maxOutput: number;
  /** Times as fast as recorded. */
  readonly speed: number;
  /** Requests a second, if that is what the speed was chosen for. */
  readonly rate?: number | undefined;
  readonly slo: Slo | undefined;
}
