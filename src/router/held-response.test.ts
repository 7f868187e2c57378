import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ClientResponse } from "../http/client-response.ts";
import { HeldResponse } from "./held-response.ts";

/** A client's response that writes down what it gets. */
function recorded() {
  const said: { status?: number; text: string; ended: boolean; destroyed: boolean } = {
    text: "",
    ended: false,
    destroyed: false,
  };
  const res: ClientResponse = {
    get headersSent() {
      return said.status !== undefined;
    },
    get writableEnded() {
      return said.ended;
    },
    get writableFinished() {
      return said.ended;
    },
    get destroyed() {
      return said.destroyed;
    },
    get statusCode() {
      return said.status ?? 200;
    },
    setHeader: () => {},
    writeHead(status) {
      if (said.status !== undefined) throw new Error("written twice");
      said.status = status;
      return res;
    },
    flushHeaders: () => {},
    write(chunk) {
      if (said.ended) throw new Error("written after its end");
      said.text += String(chunk);
      return true;
    },
    end(chunk) {
      if (said.ended) throw new Error("ended twice");
      said.text += chunk === undefined ? "" : String(chunk);
      said.ended = true;
    },
    destroy() {
      said.destroyed = true;
    },
    on: () => {},
    once: () => {},
  };
  return { said, res };
}

/** An answer as sinks write one, with a verdict amid it. */
const answer = fc.record({
  pieces: fc.array(fc.string(), { maxLength: 8 }),
  last: fc.option(fc.string(), { nil: undefined }),
  /** After so many steps: head, pieces, end. */
  at: fc.nat({ max: 11 }),
  verdict: fc.constantFrom("release", "drop"),
  end: fc.constantFrom("end", "destroy", "open"),
});

describe("HeldResponse", () => {
  it("release() gives the client all of it in its order, drop() nothing, whenever they come", () => {
    fc.assert(
      fc.property(answer, ({ pieces, last, at, verdict, end }) => {
        const { said, res } = recorded();
        const held = new HeldResponse(res);
        const steps = [
          () => held.writeHead(201),
          ...pieces.map((piece) => () => held.write(piece)),
          () => {
            if (end === "end") held.end(last);
            if (end === "destroy") held.destroy();
          },
        ];
        const when = Math.min(at, steps.length);
        for (const [i, step] of [...steps, () => {}].entries()) {
          if (i === when) {
            expect(said).toEqual({ text: "", ended: false, destroyed: false });
            held[verdict as "release" | "drop"]();
          }
          step();
        }
        const text = pieces.join("") + (end === "end" ? (last ?? "") : "");
        expect(said).toEqual(
          verdict === "drop"
            ? { text: "", ended: false, destroyed: false }
            : { status: 201, text, ended: end === "end", destroyed: end === "destroy" },
        );
        expect(held.bytes).toBe(0);
      }),
    );
  });

  it("release() leaves a head alone that the client has already", () => {
    const { said, res } = recorded();
    const held = new HeldResponse(res);
    held.writeHead(200);
    held.write("a");
    res.writeHead(200);
    held.release();
    held.writeHead(200);
    expect(said).toMatchObject({ status: 200, text: "a" });
  });
});
