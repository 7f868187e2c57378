#!/usr/bin/env node
import { main } from "../main.ts";

await main(["router", ...process.argv.slice(2)]);
