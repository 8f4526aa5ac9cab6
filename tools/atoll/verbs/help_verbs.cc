// atoll help|completion|complete|man
#include <cstdio>
#include <memory>

#include "tools/atoll/verbs/complete.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/docker_words.h"

namespace atl::cli {
namespace {

// The script calls `atoll complete WORD…`, which prints the completions. So verbs are those of the
// installed version, and ids are current. compgen -W is not used: it would expand names that a
// server chose.
constexpr const char* kBash = R"sh(_atoll() {
  local word before=${COMP_LINE:0:COMP_POINT} current words
  # Bash parts words at ":" and "=", too, and takes what is behind the last for the word.
  current=${before##*[[:space:]]}
  read -ra words <<<"${before%"$current"}"
  COMPREPLY=()
  while IFS= read -r word; do
    [[ $word == "$current"* ]] && COMPREPLY+=("${word#"${current%"${current##*[:=]}"}"}")
    [[ $word == "$current"*: ]] && compopt -o nospace
  done < <(atoll complete -- "${words[@]:1}" 2>/dev/null)
  # What is behind a sandbox's name is no file of this host.
  [[ $current == *:* ]] && compopt +o default
  return 0
}
complete -o default -F _atoll atoll
)sh";

constexpr const char* kZsh = R"sh(#compdef atoll
_atoll() {
  local -a found
  found=("${(@f)$(atoll complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
  compadd -a found || _files
}
# Found by its name this is the function's first call, else it is read by somebody.
if [[ $funcstack[1] == _atoll ]]; then
  _atoll "$@"
else
  compdef _atoll atoll
fi
)sh";

constexpr const char* kFish = R"sh(function __atoll_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  # Files where the client has no word for it, and not beside its words.
  atoll complete -- $words[2..-1] 2>/dev/null |
    string match -r -- '^'(string escape --style=regex -- $current)'.*' ||
    __fish_complete_path $current
end
complete -c atoll -f -a '(__atoll_complete)'
)sh";

Status PrintScript(const std::string& shell) {
  const char* const script = shell == "bash"   ? kBash
                             : shell == "zsh"  ? kZsh
                             : shell == "fish" ? kFish
                                               : nullptr;
  if (script == nullptr) {
    return Fail(Code::kInvalidArgument, "SHELL '" + shell + "': use bash, zsh or fish");
  }
  std::fputs(script, stdout);
  return {};
}

Status PrintHelp(const Verb& root, const Words& names) {
  const Verb* verb = &root;
  for (const std::string& name : names) {
    const Verb* const next = verb->Find(name);
    if (next == nullptr) {
      return Fail(Code::kInvalidArgument, UnknownVerb(*verb, name));
    }
    verb = next;
  }
  std::fputs(HelpText(*verb).c_str(), stdout);
  return {};
}

}  // namespace

void AddHelpVerbs(Verb& root, const Settings& settings) {
  const auto words = std::make_shared<Words>();
  root.Add("help", "Tell about a command")
      .Takes(Argument{"VERB", "Which one", words.get(), false})
      .Does([words, &root] { return PrintHelp(root, *words); }, kUsage);

  const auto shell = std::make_shared<std::string>();
  root.Add("completion", "Completion of commands for a shell")
      .Takes(Argument{"SHELL", "bash, zsh or fish", shell.get()})
      .Says(
          "Examples:\n"
          "  source <(atoll completion bash)\n"
          "  atoll completion zsh >\"${fpath[1]}/_atoll\"\n"
          "  atoll completion fish >~/.config/fish/completions/atoll.fish")
      .Does([shell] { return PrintScript(*shell); }, kUsage);

  root.Add("complete", "What may follow the words after --")
      .Hidden()
      .TakesCommand(Argument{"WORD", "Of a command line", words.get(), false})
      .Does([words, &root, &settings] { return Complete(root, settings, *words); });

  root.Add("man", "The manual page").Hidden().Does([&root]() -> Status {
    std::fputs(ManualPage(root).c_str(), stdout);
    return {};
  });
}

}  // namespace atl::cli
