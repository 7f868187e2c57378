import { describe, expect, it } from "vitest";
import { readMemberFile } from "./member-file.ts";

const wrong = (text: string): string => {
  try {
    readMemberFile(text, "members.toml");
  } catch (error) {
    return (error as Error).message;
  }
  return "right";
};

describe("readMemberFile()", () => {
  it("reads TOML and JSON alike, with names from the URL where none are written", () => {
    const toml = `[[members]]
kind = "agent"
url = "http://10.0.0.5:7070/"
node = "gpu1"
labels = { zone = "a" }

[[members]]
kind = "kvcached"
url = "https://10.0.0.6:7071"

[marks]
"gpu1" = "cordoned"
`;
    const read = readMemberFile(toml, "members.toml");
    expect(read.members).toEqual([
      {
        kind: "agent",
        id: "http://10.0.0.5:7070/",
        node: "gpu1",
        url: "http://10.0.0.5:7070",
        epoch: 0,
        labels: { zone: "a" },
      },
      { kind: "kvcached", id: "https://10.0.0.6:7071", node: "10.0.0.6", url: "https://10.0.0.6:7071", epoch: 0 },
    ]);
    expect([...read.marks]).toEqual([["gpu1", "cordoned"]]);
    const json = JSON.stringify({
      members: [
        { kind: "agent", url: "http://10.0.0.5:7070/", node: "gpu1", labels: { zone: "a" } },
        { kind: "kvcached", url: "https://10.0.0.6:7071" },
      ],
      marks: { gpu1: "cordoned" },
    });
    expect(readMemberFile(json, "members.json")).toEqual(read);
    expect(readMemberFile("", "members.toml").members).toEqual([]);
  });

  it.each([
    ['[[members]]\nkind = "agent"\nurl = "10.0.0.5:7070"\n', /members\[0\].url at members.toml:3:1: is no address/],
    ['[[members]]\nkind = "agents"\nurl = "http://a:1"\n', /members\[0\].kind at members.toml:2:1/],
    [
      '[[members]]\nkind = "agent"\nurl = "http://a:1"\nnod = "x"\n',
      /members\[0\].nod at members.toml:4:1: there is no such key/,
    ],
    ['[[members]]\nkind = "agent"\n', /members\[0\].url at members.toml:1:3/],
    [
      '[[members]]\nkind = "agent"\nurl = "http://a:1"\n[[members]]\nkind = "agent"\nurl = "http://a:1"\n',
      /members.toml:4:3: .*listed twice/,
    ],
    ["[[members]\n", /members.toml:2:1: not TOML/],
    ["{", /not JSON/],
  ])("names the place of what is wrong in %j", (text, said) => {
    expect(wrong(text)).toMatch(said);
  });
});
