// OpenAI's Node SDK: npm install openai; node openai-node.mjs
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: `${process.env.CGN_URL ?? "http://127.0.0.1:8080"}/v1`,
  apiKey: process.env.CGN_API_KEY ?? "unused",
});
const model = process.env.CGN_MODEL ?? (await client.models.list()).data[0].id;

// Two turns: the second one's prompt begins with the first, so it is sent where that lies in the cache.
const messages = [{ role: "user", content: "Name three colours." }];
for (const next of ["Which of them is the darkest?", undefined]) {
  const { data, response } = await client.chat.completions.create({ model, messages, max_tokens: 32 }).withResponse();
  const { content } = data.choices[0].message;
  const cached = data.usage?.prompt_tokens_details?.cached_tokens ?? 0;
  console.log(`${response.headers.get("x-cgn-node")}: ${cached} of ${data.usage?.prompt_tokens} tokens were cached`);
  messages.push({ role: "assistant", content }, ...(next === undefined ? [] : [{ role: "user", content: next }]));
}
