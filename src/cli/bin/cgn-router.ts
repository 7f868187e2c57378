#!/usr/bin/env node
import { boundHeapOf } from "../bound-heap.ts";
import { requireNode } from "../require-node.ts";

requireNode();
const args = ["router", ...process.argv.slice(2)];
boundHeapOf(args);
const { main } = await import("../main.ts");
await main(args);
