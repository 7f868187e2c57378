import type { Command, Option } from "./command.ts";

/** Shells that completion is written for. */
export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** What may follow a list of words: the words of commands that go on there, and the command that ends there. */
interface Place {
  readonly words: readonly string[];
  readonly next: readonly string[];
  readonly command: Command | undefined;
  readonly about: string;
}

/** A script that the shell reads at its start; made from the commands' data alone. */
export function completionScript(
  shell: Shell,
  commands: readonly Command[],
  groups: Readonly<Record<string, string>>,
): string {
  const places = placesOf(commands, groups);
  return { bash, zsh, fish }[shell](places);
}

function placesOf(commands: readonly Command[], groups: Readonly<Record<string, string>>): Place[] {
  const paths = new Set<string>([""]);
  for (const { name } of commands) {
    const words = name.split(" ");
    for (let length = 1; length <= words.length; length++) paths.add(words.slice(0, length).join(" "));
  }
  return [...paths].map((path) => {
    const words = path === "" ? [] : path.split(" ");
    const next = [...paths]
      .filter((other) => other !== "" && other.split(" ").slice(0, -1).join(" ") === path)
      .map((other) => other.split(" ").at(-1)!);
    const command = commands.find(({ name }) => name === path);
    return { words, next, command, about: command?.about ?? groups[path] ?? "" };
  });
}

const wordsOf = ({ choices, offers }: Option): readonly string[] | undefined => choices ?? offers;
const takesFile = ({ value = "" }: Option): boolean => /FILE|DIR|PATH|OUT/.test(value);
const optionsOf = ({ command }: Place): [string, Option][] => Object.entries(command?.options ?? {});
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(places: readonly Place[]): string {
  const cases = places.map((place) => {
    const flags = [...optionsOf(place).map(([name]) => `--${name}`), "--help"];
    return `    ${quoted(place.words.join(" "))}) words=${quoted([...place.next, ...flags].join(" "))} ;;`;
  });
  const values = places.flatMap((place) =>
    optionsOf(place).flatMap(([name, option]) => {
      const at = quoted(`${place.words.join(" ")} --${name}`);
      const words = wordsOf(option);
      if (words !== undefined) return [`    ${at}) words=${quoted(words.join(" "))}; return 0 ;;`];
      if (option.type === "boolean") return [];
      return [`    ${at}) ${takesFile(option) ? "files=1" : "words="}; return 0 ;;`];
    }),
  );
  return `# bash completion of cgn. In ~/.bashrc: source <(cgn completion bash)
_cgn_value() {
  case "$1" in
${values.join("\n")}
  esac
  return 1
}
_cgn_words() {
  case "$1" in
${cases.join("\n")}
    *) return 1 ;;
  esac
}
_cgn() {
  local cur=\${COMP_WORDS[COMP_CWORD]} path="" words="" files="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -* ]] && continue
    if _cgn_words "\${path:+$path }$word"; then path="\${path:+$path }$word"; fi
  done
  words=""
  if ! _cgn_value "$path \${COMP_WORDS[COMP_CWORD - 1]}"; then _cgn_words "$path"; fi
  if [[ -n $files ]]; then COMPREPLY=($(compgen -f -- "$cur"))
  else COMPREPLY=($(compgen -W "$words" -- "$cur")); fi
}
complete -o filenames -o bashdefault -F _cgn cgn
`;
}

function zsh(places: readonly Place[]): string {
  const text = (about: string): string => about.replaceAll(/[[\]:]/g, "\\$&").replaceAll("'", "'\\''");
  const cases = places.map((place) => {
    const next = place.next.map((word) => {
      const path = [...place.words, word].join(" ");
      const about = places.find(({ words }) => words.join(" ") === path)?.about ?? "";
      return `'${word}:${text(about)}'`;
    });
    const flags = optionsOf(place).map(([name, option]) => {
      const repeat = option.type === "string[]" ? "*" : "";
      const words = wordsOf(option);
      const offered = words !== undefined ? `(${words.join(" ")})` : takesFile(option) ? "_files" : " ";
      const value = option.type === "boolean" ? "" : `:${text(option.value ?? "value")}:${offered}`;
      return `'${repeat}--${name}[${text(option.about)}]${value}'`;
    });
    const commands = next.length === 0 ? "" : `commands=(${next.join(" ")}); `;
    return `    ${quoted(place.words.join(" "))}) ${commands}flags=(${[...flags, "'--help[how to use it]'"].join(" ")}) ;;`;
  });
  return `#compdef cgn
# zsh completion of cgn. In ~/.zshrc, after compinit: source <(cgn completion zsh)
_cgn_place() {
  commands=(); flags=()
  case "$1" in
${cases.join("\n")}
    *) return 1 ;;
  esac
}
_cgn() {
  local path_="" word i
  local -a commands flags
  local used=1
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    [[ $word == -* ]] && continue
    if _cgn_place "\${path_:+$path_ }$word"; then path_="\${path_:+$path_ }$word"; used=$i; fi
  done
  _cgn_place "$path_"
  if (( \${#commands} )) && [[ \${words[CURRENT]} != -* ]]; then _describe 'command' commands; return; fi
  words=(cgn "\${(@)words[used+1,-1]}")
  (( CURRENT -= used - 1 ))
  _arguments -s $flags '*:argument:_files'
}
compdef _cgn cgn
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap((place) => {
    const path = place.words.join(" ");
    const here = `__cgn_at ${quoted(path)}`;
    const next = place.next.map((word) => {
      const about = places.find(({ words }) => words.join(" ") === [...place.words, word].join(" "))?.about ?? "";
      return `complete -c cgn -f -n ${quoted(here)} -a ${quoted(word)} -d ${quoted(about)}`;
    });
    const flags = optionsOf(place).map(([name, option]) => {
      const words = wordsOf(option);
      const value =
        option.type === "boolean"
          ? ""
          : words !== undefined
            ? ` -x -a ${quoted(words.join(" "))}`
            : takesFile(option)
              ? " -r -F"
              : " -x";
      return `complete -c cgn -n ${quoted(here)} -l ${name}${value} -d ${quoted(option.about)}`;
    });
    return [...next, ...flags];
  });
  const paths = places.filter(({ words }) => words.length > 0).map(({ words }) => quoted(words.join(" ")));
  return `# fish completion of cgn: cgn completion fish > ~/.config/fish/completions/cgn.fish
set -g __cgn_paths ${paths.join(" ")}
function __cgn_at
    set -l path ''
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and continue
        set -l longer (string trim -- "$path $word")
        contains -- $longer $__cgn_paths; and set path $longer
    end
    test "$path" = "$argv[1]"
end
${lines.join("\n")}
`;
}
