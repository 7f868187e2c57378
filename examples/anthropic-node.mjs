// Anthropic's Node SDK: npm install @anthropic-ai/sdk; node anthropic-node.mjs
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({
  baseURL: process.env.CGN_URL ?? "http://127.0.0.1:8080",
  apiKey: process.env.CGN_API_KEY ?? "unused",
});
const model = process.env.CGN_MODEL ?? (await client.models.list()).data[0].id;

const stream = client.messages.stream({
  model,
  max_tokens: 32,
  messages: [{ role: "user", content: "Name a colour." }],
});
stream.on("text", (text) => process.stdout.write(text));
const { usage } = await stream.finalMessage();
console.log(`\n${usage.output_tokens} tokens`);
