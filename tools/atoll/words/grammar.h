// The grammar of the command line: verbs, options and arguments, each described once. The parser,
// help, the manual page and completion all use this description.
//
// Lines are read as docker reads them: options may precede or follow a verb's words. If a verb
// takes a command, all words after its last argument, or after "--", belong to the command and are
// not interpreted.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/result.h"

namespace atl::cli {

using Words = std::vector<std::string>;

// Exit codes of atoll's own failures. kUsage: the words have no meaning, or name nothing that
// exists.
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
// Exit code of failures of run and exec, which otherwise return the command's code.
inline constexpr int kRunFailed = 125;

// The variable that gets the value. Borrowed; lives as long as the verb. A list may be given
// several times.
using Target = std::variant<bool*, int*, std::string*, Words*>;

struct Range {
  int least = 0, most = 0;
  bool duration = false;

  // Parses `text`; kInvalidArgument says what is allowed.
  Result<int> Read(const std::string& text) const;
};

// A range of seconds; values are parsed as durations (duration.h).
constexpr Range Seconds(int least, int most) {
  return {least, most, true};
}

struct Option {
  std::string names;  // "-e,--env"; messages use the last
  std::string value;  // name of the value, "NAME=VALUE"; empty: a flag
  std::string what;
  Target target;
  Range range = {};           // range of an int
  std::string variable = {};  // environment variable with the default

  Words AllNames() const;
};

struct Argument {
  std::string
      name;  // "IMAGE"; completes IMAGE, ID, POOL, SNAPSHOT, TEMPLATE, VOLUME, TENANT, KEY, VERB
  std::string what;
  Target target;
  bool required = true;
  Range range = {};
  const std::string* unless = nullptr;  // option that makes this argument optional
};

// Returns kInvalidArgument: a usage error.
inline tl::unexpected<Error> Wrong(const std::string& text) {
  return Fail(Code::kInvalidArgument, text);
}

class Verb {
 public:
  // `names` is "ps,ls"; messages use the first.
  Verb(std::string names, std::string what, const Verb* parent = nullptr);
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  Verb& Add(std::string names, std::string what);
  Verb& Takes(Option option);
  // Adds the next argument; a list comes last.
  Verb& Takes(Argument argument);
  // Adds an argument that takes the rest of the line as a command.
  Verb& TakesCommand(Argument argument);
  // Sets the paragraphs of help; examples follow the word "Examples:".
  Verb& Says(std::string text);
  // Hides the verb from lists of verbs.
  Verb& Hidden();
  // Sets the action. It returns an exit code, or a Status (0 if OK). `failed` is the exit code of
  // its errors.
  template <typename Act>
  Verb& Does(Act act, int failed = kFailed) {
    failed_ = failed;
    if constexpr (std::is_same_v<std::invoke_result_t<Act>, Status>) {
      act_ = [act = std::move(act)]() -> Result<int> {
        ATOLL_TRY(act());
        return 0;
      };
    } else {
      act_ = std::move(act);
    }
    return *this;
  }

  const std::string& name() const { return names_.front(); }
  const Words& names() const { return names_; }
  const std::string& what() const { return what_; }
  const std::string& text() const { return text_; }
  const std::deque<Verb>& verbs() const { return verbs_; }
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  bool has_command() const { return has_command_; }
  bool hidden() const { return hidden_; }
  const Verb* parent() const { return parent_; }
  const std::function<Result<int>()>& act() const { return act_; }
  int failed() const { return failed_; }
  // Returns the full name, "atoll image ls".
  std::string Path() const;
  const Verb* Find(const std::string& name) const;
  // Finds an option of this verb or of a verb above it.
  const Option* FindOption(const std::string& name) const;

 private:
  Words names_;
  std::string what_;
  std::string text_;
  const Verb* parent_;
  std::deque<Verb> verbs_;
  std::vector<Option> options_;
  std::vector<Argument> arguments_;
  bool has_command_ = false;
  bool hidden_ = false;
  std::function<Result<int>()> act_;
  int failed_ = kFailed;
};

struct Line {
  const Verb* verb = nullptr;  // the last verb that the words name
  bool help = false;           // --help was given; nothing was checked
};

// Parses `words` and fills the targets. `line` names the verb even if the line is wrong. The error,
// kInvalidArgument, says what to type instead.
Status ReadLine(const Verb& root, const Words& words, Line* line);

// Returns the text of --help.
std::string HelpText(const Verb& verb);
// Returns "Usage: atoll run [OPTIONS] IMAGE …".
std::string UsageLine(const Verb& verb);
// Returns atoll(1) in roff, with all verbs.
std::string ManualPage(const Verb& root);

}  // namespace atl::cli
