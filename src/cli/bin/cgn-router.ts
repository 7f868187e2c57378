#!/usr/bin/env node
import { requireNode } from "../require-node.ts";

requireNode();
const { main } = await import("../main.ts");
await main(["router", ...process.argv.slice(2)]);
