// atoll completion bash|zsh|fish
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

// The shell asks the client itself, so that words are those of this version and ids those of now:
// `atoll complete WORD…` prints what may follow the words.
// Not compgen -W: it would expand what a server calls its sandboxes.
constexpr const char* kBash = R"sh(_atoll() {
  local word current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r word; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done < <(atoll complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
}
complete -o default -F _atoll atoll
)sh";

constexpr const char* kZsh = R"sh(#compdef atoll
_atoll() {
  local -a found
  found=("${(@f)$(atoll complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
  compadd -a found || _files
}
compdef _atoll atoll
)sh";

constexpr const char* kFish = R"sh(function __atoll_complete
  set -l words (commandline -opc)
  atoll complete -- $words[2..-1] 2>/dev/null
end
complete -c atoll -a '(__atoll_complete)'
)sh";

}  // namespace

void AddCompletionVerb(CLI::App& app, int* exit_code) {
  CLI::App* completion = app.add_subcommand("completion", "Completion of commands for a shell");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(
      "Examples:\n"
      "  source <(atoll completion bash)\n"
      "  atoll completion zsh >\"${fpath[1]}/_atoll\"\n"
      "  atoll completion fish >~/.config/fish/completions/atoll.fish");
  completion->callback([shell, exit_code] {
    std::fputs(*shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish, stdout);
    *exit_code = 0;
  });
}

}  // namespace atl::cli
