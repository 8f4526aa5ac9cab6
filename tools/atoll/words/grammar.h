// The words of the command line: what every verb takes, described once. Reading them, help, the
// manual page and completion all walk this description.
//
// Read as people who come from docker type it: options stand before or behind a verb's words; of a
// verb with a command all that follows its last word before that, or "--", is the command,
// untouched.
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

// Exit codes of our own failures. kUsage: the words cannot be meant, or name nothing that there is.
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
// Of run and exec, whose other codes are the command's.
inline constexpr int kRunFailed = 125;

// Where what was given goes; not owned, and there as long as the verb. A list means: repeatable.
using Target = std::variant<bool*, int*, std::string*, Words*>;

struct Range {
  int least = 0, most = 0;
  bool duration = false;

  // The number that `text` says; kInvalidArgument says what may stand there.
  Result<int> Read(const std::string& text) const;
};

// The range of an int that counts seconds; it is read as durations are (duration.h).
constexpr Range Seconds(int least, int most) {
  return {least, most, true};
}

struct Option {
  std::string names;  // "-e,--env"; the last is the one that is told
  std::string value;  // what its value is called, "NAME=VALUE"; empty: a flag
  std::string what;
  Target target;
  Range range = {};           // of an int
  std::string variable = {};  // of the environment, that stands for it

  Words AllNames() const;
};

struct Argument {
  std::string name;  // "IMAGE"; completion knows it, ID, POOL, SNAPSHOT, TEMPLATE, VOLUME and VERB
  std::string what;
  Target target;
  bool required = true;
  Range range = {};
  const std::string* unless = nullptr;  // of an option: what is required may be left out with it
};

// kInvalidArgument: what is typed cannot be meant.
inline tl::unexpected<Error> Wrong(const std::string& text) {
  return Fail(Code::kInvalidArgument, text);
}

class Verb {
 public:
  // "ps,ls": its names; the first is the one that is told.
  Verb(std::string names, std::string what, const Verb* parent = nullptr);
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  Verb& Add(std::string names, std::string what);
  Verb& Takes(Option option);
  // In their order; a list comes last.
  Verb& Takes(Argument argument);
  // What is left of the line belongs to it.
  Verb& TakesCommand(Argument argument);
  // Paragraphs of help, examples after the word "Examples:".
  Verb& Says(std::string text);
  // In no list of verbs.
  Verb& Hidden();
  // What it does; an exit code, or nothing for 0.
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
  // "atoll image ls".
  std::string Path() const;
  const Verb* Find(const std::string& name) const;
  // Its own option, or one of those above it.
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
  const Verb* verb = nullptr;  // as far as the words have led
  bool help = false;           // was asked for; nothing has been checked
};

// Reads `words` and fills the targets. `line` tells the verb of a wrong line too; the error,
// kInvalidArgument, says what to type instead.
Status ReadLine(const Verb& root, const Words& words, Line* line);

// Of --help.
std::string HelpText(const Verb& verb);
// "Usage: atoll run [OPTIONS] IMAGE …".
std::string UsageLine(const Verb& verb);
// atoll(1) in roff, all verbs.
std::string ManualPage(const Verb& root);

}  // namespace atl::cli
