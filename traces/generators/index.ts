export { chat } from "./chat.ts";
export { codingAgent } from "./coding-agent.ts";
export { fewShot } from "./few-shot.ts";
export { lruLoop } from "./lru-loop.ts";
export { rag } from "./rag.ts";
export { subAgents } from "./sub-agents.ts";
export { tenants } from "./tenants.ts";
export { treeOfThought } from "./tree-of-thought.ts";
