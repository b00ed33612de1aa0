// What each shell is told: scripts without a call of the program, so that completing is instant.

import type { Outline, OutlinedCommand, OutlinedOption, ValueKind } from "./outline.js";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

export const completionScripts: Readonly<Record<Shell, (outline: Outline) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** A word for any of the shells. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const paths = ({ commands }: Outline): string[] =>
  commands.map(({ path }) => path).filter((path) => path !== "");

/** Every way to name an option that takes a value, with the value's kind. */
function valuedOptions({
  commands,
}: Outline): { readonly at: readonly string[]; readonly value: ValueKind }[] {
  return commands.flatMap(({ path, options }) =>
    options.flatMap(({ names, value }) =>
      value ? [{ at: names.map((name) => `${path}:${name}`), value }] : [],
    ),
  );
}

const long = ({ names }: OutlinedOption): string => names[0]!;

/** What may stand where no option is wanted. */
function plainWords({ children, argument }: OutlinedCommand): readonly string[] {
  if (children.length > 0) return children.map(({ name }) => name);
  return argument?.kind === "words" ? argument.words : [];
}

function bashScript(outline: Outline): string {
  const { commands, keys } = outline;
  const reply = (words: string) => `COMPREPLY=($(compgen -W ${words} -- "$cur"))`;
  // Nothing offered: bash completes files, as "-o default" says.
  const answer = (value: ValueKind): string => {
    if (value.kind === "words") return `${reply(quoted(value.words.join(" ")))}; return`;
    if (value.kind !== "key") return "return";
    return `${reply('"$keys"')}; compopt -o nospace 2>/dev/null; return`;
  };
  return `# Completion of speedtronic for bash. Put this line into ~/.bashrc:
#   eval "$(speedtronic completion bash)"
_speedtronic() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" at="" i
  local keys=${quoted(keys.map((key) => `${key}=`).join(" "))}
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at/\${COMP_WORDS[i]}" in
      ${paths(outline).join("|")}) at="$at/\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at:$prev" in
${valuedOptions(outline)
  .map(({ at, value }) => `    ${at.join("|")}) ${answer(value)} ;;`)
  .join("\n")}
  esac
  local options="" words=""
  case "$at" in
${commands
  .map(
    (command) =>
      `    ${quoted(command.path)}) options=${quoted(command.options.map(long).join(" "))}; words=${quoted(plainWords(command).join(" "))} ;;`,
  )
  .join("\n")}
  esac
  if [[ "$cur" == -* ]]; then
    ${reply('"$options"')}
  else
    ${reply('"$words"')}
  fi
}
complete -o default -F _speedtronic speedtronic
`;
}

/** `name:description`, in which a colon of the name is escaped. */
function described(name: string, description: string): string {
  return quoted(`${name.replaceAll(":", "\\:")}:${description}`);
}

function zshScript(outline: Outline): string {
  const { commands, keys } = outline;
  const answer = (value: ValueKind): string => {
    if (value.kind === "words") return `compadd -- ${value.words.map(quoted).join(" ")}`;
    if (value.kind === "key") return "compadd -S '' -- $keys";
    return value.kind === "path" ? "_files" : "return 1";
  };
  const rows = (command: OutlinedCommand): string => {
    const options = command.options.map((option) => described(long(option), option.description));
    const children = command.children.map(({ name, summary }) => described(name, summary));
    return `    (${quoted(command.path)})
      options=(${options.join(" ")})
      words_here=(${[...children, ...(children.length > 0 ? [] : plainWords(command).map(quoted))].join(" ")}) ;;`;
  };
  return `#compdef speedtronic
# Completion of speedtronic for zsh. Put this line into ~/.zshrc, after compinit:
#   eval "$(speedtronic completion zsh)"
_speedtronic() {
  local cur="\${words[CURRENT]}" prev="\${words[CURRENT-1]}" at="" i
  local -a keys options words_here
  keys=(${keys.map((key) => quoted(`${key}=`)).join(" ")})
  for ((i = 2; i < CURRENT; i++)); do
    case "$at/\${words[i]}" in
      (${paths(outline).join("|")}) at="$at/\${words[i]}" ;;
    esac
  done
  case "$at:$prev" in
${valuedOptions(outline)
  .map(({ at, value }) => `    (${at.join("|")}) ${answer(value)}; return ;;`)
  .join("\n")}
  esac
  case "$at" in
${commands.map(rows).join("\n")}
  esac
  if [[ "$cur" == -* ]]; then
    _describe option options
  elif (( \${#words_here} > 0 )); then
    _describe command words_here
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" == _speedtronic ]]; then
  _speedtronic "$@"
else
  compdef _speedtronic speedtronic
fi
`;
}

function fishScript(outline: Outline): string {
  const { commands, keys } = outline;
  const lines = commands.flatMap((command) => {
    const condition = `-n ${quoted(`__speedtronic_at "${command.path}"`)}`;
    const words = plainWords(command);
    return [
      ...command.children.map(
        ({ name, summary }) => `complete -c speedtronic ${condition} -f -a ${name} -d ${quoted(summary)}`,
      ),
      ...(command.children.length === 0 && words.length > 0
        ? [`complete -c speedtronic ${condition} -f -a ${quoted(words.join(" "))}`]
        : []),
      ...command.options.map((option) => `complete -c speedtronic ${condition} ${fishOption(option)}`),
    ];
  });
  return `# Completion of speedtronic for fish. Put this line into ~/.config/fish/config.fish:
#   speedtronic completion fish | source
function __speedtronic_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case ${paths(outline).join(" ")}
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
set -g __speedtronic_keys ${keys.map((key) => `${key}=`).join(" ")}
${lines.join("\n")}
`;
}

function fishOption({ names, description, value }: OutlinedOption): string {
  const parts = names.map((name) => (name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  if (value?.kind === "words") parts.push(`-x -a ${quoted(value.words.join(" "))}`);
  else if (value?.kind === "key") parts.push("-x -a '$__speedtronic_keys'");
  else if (value?.kind === "path") parts.push("-r -F");
  else if (value) parts.push("-x");
  return [...parts, `-d ${quoted(description)}`].join(" ");
}
