#include "execd/run/shell_text.h"

#include <limits.h>

#include <algorithm>
#include <optional>

namespace atl::execd {
namespace {

// The loop is one line, so that a script's first line is line 1 in messages and in LINENO.
//
// While a script runs, its descriptor 0 is /dev/null. Bash saves the socket close-on-exec at 248,
// because `exec` duplicates 0 from 247 and bash saves above that number. So no program inherits the
// socket, and a script that opens or closes 3, 10 or 200 does not affect it. `exec` closes 247,
// which is not undone. In a list that ends in "&&", the status of the last script ($?) triggers
// neither `set -e` nor an ERR trap.
//
// `read -N` reads bytes (LC_ALL=C) in whole blocks; it reads a line of a socket byte by byte.
// __atoll_x runs when the shell exits: by `exit`, `set -e`, an error, or the signal of a timeout. A
// script's own EXIT trap runs after it, in the same trap. While a script that mentions traps runs,
// the function `trap` puts the script's trap there and lists it as the script gave it. __atoll_q is
// defined for $? only. A script's `break` outside of its loops ends the inner loop.
constexpr std::string_view kBash = R"(__atoll_q() { return "$1"; };
__atoll_d() { { builtin printf 'd%s\0e' "$PWD"; builtin trap -p EXIT; builtin printf '\0v';
 builtin declare -p; builtin declare -f; builtin alias -p; builtin shopt -p; builtin shopt -po;
 builtin trap; builtin umask -p; builtin printf 'set +o onecmd\n\0'; } >&"$1" 2>/dev/null; };
__atoll_w() { builtin set +xv; builtin unset -v __atoll_c; [[ ! ${__atoll_w-} ]] || builtin unset -f trap; builtin unset -v __atoll_w; };
__atoll_s() { builtin printf 's%s %s\0' "$1" "$-" >&0; __atoll_w; __atoll_d 0; };
__atoll_x() { { __atoll_r=$?; __atoll_w; builtin unset -v __atoll_u;
 for __atoll_f in 248 249 250 0; do [[ ! -S /proc/self/fd/$__atoll_f ]] || break; done;
 __atoll_d "$__atoll_f"; } 2>/dev/null; return "$__atoll_r"; };
__atoll_t() { [[ ! -o posix ]] || return 0; ! builtin declare -F trap >/dev/null || return 0;
 __atoll_w=1; trap() {
 if [[ $BASHPID != "$$" || ${1-} == -l ]]; then builtin trap "$@"; return; fi;
 if [[ $# == 0 || $1 == -p ]]; then
 builtin trap -- "${__atoll_u--}" EXIT; builtin trap "$@"; builtin set -- $?;
 builtin trap -- "__atoll_x"$'\n'"${__atoll_u-}" EXIT; return "$1"; fi;
 [[ $1 != -- ]] || shift;
 builtin trap -- "$@" || return;
 for __atoll_f in "${@:$(($# > 1 ? 2 : 1))}"; do case $__atoll_f in
 ERR) [[ $1 != - ]] || builtin trap -- : ERR;;
 EXIT|exit|SIGEXIT|0) if [[ $# == 1 || $1 == - ]]; then builtin unset -v __atoll_u;
 else __atoll_u=${1#"__atoll_x"$'\n'}; fi; builtin trap -- "__atoll_x"$'\n'"${__atoll_u-}" EXIT;;
 esac; done; }; };
builtin trap -- __atoll_x EXIT; builtin printf 'r\0' >&0;
while :; do while { IFS=' ' TMOUT= builtin read -r __atoll_n __atoll_k __atoll_j || builtin exit;
 LC_ALL=C builtin read -rN "$__atoll_n" __atoll_c; builtin export -n __atoll_c; }; do
 case $__atoll_k in q) builtin eval "$__atoll_c"; { builtin printf 'r\0' >&0; } 2>/dev/null;;
 *) { \exec 247<&-; __atoll_q "$__atoll_j" && :; builtin eval "$__atoll_c"; } 247</dev/null 0<&247;
 { __atoll_s $?; } 2>/dev/null;; esac;
 done;
 { __atoll_s 0; } 2>/dev/null;
done;
builtin exit)";

// The loop for other shells, which lack these features. It reports exported variables only.
constexpr std::string_view kSh = R"(__atoll_b='
'; __atoll_q() { return "$1"; }
__atoll_d() { { printf 'd%s\0e\0v' "$PWD"; export -p; printf '\0'; } >&0 2>/dev/null; }
__atoll_s() { printf 's%s %s\0' "$1" "$-" >&0; set +xv; __atoll_d; }
__atoll_x() { __atoll_r=$?; set +xv; __atoll_d; return "$__atoll_r"; }
trap __atoll_x EXIT; printf 'r\0' >&0
while :; do while IFS=' ' read -r __atoll_n __atoll_k __atoll_j || exit; do
 __atoll_c=; while [ "$__atoll_n" -gt 0 ]; do IFS= read -r __atoll_l
 __atoll_c=$__atoll_c$__atoll_l$__atoll_b; __atoll_n=$((__atoll_n - 1)); done
 case $__atoll_k in q) eval "$__atoll_c"; printf 'r\0' >&0;;
 *) { __atoll_q "$__atoll_j" && :; eval "$__atoll_c"; } </dev/null; { __atoll_s $?; } 2>/dev/null;; esac
 done
 { __atoll_s 0; } 2>/dev/null
done
)";

// Encodes a request. Bash reads it by bytes, other shells by lines.
std::string Request(bool bash, const std::string& kind, std::string text) {
  auto size = text.size();
  if (!bash) {
    text.push_back('\n');
    size = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  return std::to_string(size) + " " + kind + "\n" + text;
}

// Returns the EXIT trap with execd's part. A script may have set the trap in a file that it
// sourced, which removes that part.
std::string ExitTrapRepaired(const ShellState& state) {
  constexpr std::string_view kOurs = "trap -- '__atoll_x", kHead = "trap -- ", kTail = " EXIT\n";
  if (!state.exit_trap_known || state.exit_trap.starts_with(kOurs)) return {};
  if (!state.exit_trap.starts_with(kHead) || !state.exit_trap.ends_with(kTail)) {
    return "builtin unset -v __atoll_u;builtin trap -- __atoll_x EXIT;";
  }
  const std::string_view action =
      std::string_view(state.exit_trap)
          .substr(kHead.size(), state.exit_trap.size() - kHead.size() - kTail.size());
  return "__atoll_u=" + std::string(action) +
         ";builtin trap -- \"__atoll_x\"$'\\n'\"$__atoll_u\" EXIT;";
}

// Limit on a word. A longer word is of no use in a path, and many unterminated words would take
// very long.
constexpr size_t kMaxWord = 2 * PATH_MAX;

// Reads the word at the start of `text`: quoted pieces of either kind, and unquoted pieces. Returns
// nullopt if the word contains anything that a shell would not take literally.
std::optional<std::string> ReadWord(std::string_view text) {
  std::string word;
  for (size_t i = 0; i < text.size() && text[i] != '\n';) {
    const char quote = text[i];
    if (quote == '\'') {
      const size_t end = text.find(quote, i + 1);
      if (end == std::string_view::npos) return std::nullopt;
      word.append(text.substr(i + 1, end - i - 1));
      i = end + 1;
    } else if (quote == '"') {
      for (++i; i < text.size() && text[i] != quote; ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        word.push_back(text[i]);
      }
      if (i++ == text.size()) return std::nullopt;
    } else if (std::string_view(" $`\\();&|<>").find(quote) == std::string_view::npos) {
      word.push_back(text[i++]);
    } else {
      return std::nullopt;
    }
  }
  return word;
}

}  // namespace

Variables ExportedVariables(std::string_view text) {
  Variables variables;
  while (!text.empty()) {
    // Bash prints "declare -rx NAME=…", other shells "export NAME=…".
    std::string_view line = text.substr(0, text.find('\n'));
    const size_t flags = line.starts_with("declare -") ? line.find(' ', 9) : std::string::npos;
    const bool exported = line.starts_with("export ") ||
                          (flags != std::string::npos &&
                           line.substr(9, flags - 9).find('x') != std::string_view::npos);
    const size_t name = flags != std::string::npos ? flags + 1 : 7;
    const size_t equals = line.find('=');
    if (exported && equals != std::string_view::npos && equals > name) {
      if (auto value = ReadWord(text.substr(equals + 1, kMaxWord))) {
        variables.emplace_back(line.substr(name, equals - name), *std::move(value));
      }
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return variables;
}

std::string ShellLoop(bool bash) {
  std::string loop(bash ? kBash : kSh);
  if (bash) {
    std::replace(loop.begin(), loop.end(), '\n', ' ');
    loop.push_back('\n');
  }
  return loop;
}

// Separate lines, because some of the shell's own variables refuse assignment, and a refusal ends
// the line. The option extglob comes first, because functions may contain extended patterns.
std::string RestoringScript(bool bash, const ShellState& state) {
  return (bash ? "shopt -s extglob;" : "") +
         ("exec 9>&2 2>/dev/null;__atoll_p=$PWD\n" + state.text) +
         "\nPWD=$__atoll_p;unset __atoll_p;exec 2>&9 9>&-";
}

std::string ShellQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out.append("'\\''");
    } else {
      out.push_back(c);
    }
  }
  return out + "'";
}

std::string ShellRequest(bool bash, const ShellState& state, std::string_view script,
                         const std::string& cwd) {
  std::string own = bash ? ExitTrapRepaired(state) : std::string();
  if (bash && script.find("trap") != std::string_view::npos) own.append("__atoll_t;");
  if (!cwd.empty()) {
    own.append(bash ? "builtin" : "command").append(" cd -- ").append(ShellQuoted(cwd));
  }
  std::string text;
  if (state.traced) text.append("set -x;");
  if (state.verbose) text.append("set -v;");
  return (own.empty() ? own : OwnShellRequest(bash, own)) +
         Request(bash, "r " + std::to_string(state.code), text.append(script));
}

std::string OwnShellRequest(bool bash, std::string_view script) {
  return Request(bash, "q", std::string(script));
}

}  // namespace atl::execd
