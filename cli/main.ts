#!/usr/bin/env node
import { checkAddressSpace } from "./address-space.ts";

checkAddressSpace();
// Everything else is loaded only then, because loading it without enough address space ends Node with a stack trace.
const { main } = await import("./program.ts");
await main(process.argv.slice(2));
