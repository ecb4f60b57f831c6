export { answerView } from "./answer.ts";
export { compareView } from "./compare.ts";
export { curvesView } from "./curves.ts";
export { liveView } from "./live.ts";
export { runView } from "./run.ts";
export { runsView } from "./runs.ts";
export { startView } from "./start.ts";
export { timeTravelView } from "./time-travel.ts";
