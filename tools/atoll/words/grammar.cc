#include "tools/atoll/words/grammar.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "runtime/base/utf8.h"
#include "tools/atoll/words/docker_words.h"
#include "tools/atoll/words/nearest.h"
#include "tools/atoll/words/option_words.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

Words SplitNames(const std::string& names) {
  Words list(1);
  for (const char c : names) {
    if (c == ',') {
      list.emplace_back();
    } else {
      list.back().push_back(c);
    }
  }
  return list;
}

Status Store(const Argument& argument, const std::string& value) {
  if (auto* const text = std::get_if<std::string*>(&argument.target)) {
    **text = value;
  } else if (auto* const list = std::get_if<Words*>(&argument.target)) {
    (*list)->push_back(value);
  } else {
    const auto number = argument.range.Read(value);
    if (!number) return Wrong(argument.name + " " + number.error().message());
    *std::get<int*>(argument.target) = *number;
  }
  return {};
}

// Refuses words that are not UTF-8. JSON cannot carry them, and a changed word is worse than an
// error.
Status CheckText(const Words& words) {
  for (const std::string& word : words) {
    if (IsUtf8(word)) continue;
    return Wrong(JsonText(word) +
                 " is not UTF-8, as the API's words are; bytes pass by standard input and files");
  }
  return {};
}

class LineReader {
 public:
  LineReader(Words words, Line* line) : words_(std::move(words)), line_(*line) {}

  Status Run() {
    for (;;) {
      if (CommandBegins()) {
        if (words_.front() == "--") Take();
        TakeCommand();
        return {};
      }
      ATOLL_TRY(TakeOptions(verb(), &words_, &line_.help));
      if (line_.help) return {};
      if (words_.empty()) return Complete();
      const std::string& word = words_.front();
      if (word == "--") {
        ATOLL_TRY(DoubleDash());
      } else if (word.size() > 1 && word.front() == '-') {
        return Unknown(word);
      } else {
        ATOLL_TRY(Plain());
      }
    }
  }

 private:
  const Verb& verb() const { return *line_.verb; }
  // Returns the number of arguments before a command.
  size_t fixed() const { return verb().arguments().size() - (verb().has_command() ? 1 : 0); }

  // Returns true if the next word belongs to the command: all words after the last argument do,
  // options included.
  bool CommandBegins() const {
    return verb().has_command() && given_ > 0 && given_ == fixed() && !words_.empty();
  }

  std::string Take() {
    std::string word = std::move(words_.front());
    words_.erase(words_.begin());
    return word;
  }

  void TakeCommand() {
    given_ += words_.empty() ? 0 : 1;
    *std::get<Words*>(verb().arguments().back().target) = std::exchange(words_, {});
  }

  Status DoubleDash() {
    if (verb().has_command() && given_ < fixed()) {
      return Wrong(verb().arguments()[given_].name + " is missing before --");
    }
    Take();
    if (verb().has_command()) TakeCommand();
    while (!words_.empty()) ATOLL_TRY(Plain());
    return {};
  }

  Status Plain() {
    if (!verb().verbs().empty()) {
      const std::string word = Take();
      const Verb* const next = verb().Find(word);
      if (next == nullptr) return Wrong(UnknownVerb(verb(), word));
      line_.verb = next;
      return {};
    }
    if (verb().has_command() && fixed() == 0) {
      TakeCommand();
      return {};
    }
    const std::string word = Take();
    const auto& arguments = verb().arguments();
    const bool list = !arguments.empty() && std::holds_alternative<Words*>(arguments.back().target);
    if (given_ >= arguments.size() && !list) return Wrong("'" + word + "' is one word too many");
    const Argument& argument = arguments[std::min(given_, arguments.size() - 1)];
    ++given_;
    return Store(argument, word);
  }

  // The error names "-d" for "-dit" if the verb has no -d, which is clearer.
  Status Unknown(const std::string& word) const {
    if (word[1] == '-') return Wrong(UnknownOption(verb(), word.substr(0, word.find('='))));
    std::string name = word.substr(0, 2);
    for (size_t i = 2; i < word.size() && verb().FindOption(name) != nullptr; ++i) {
      name[1] = word[i];
    }
    return Wrong(UnknownOption(verb(), name));
  }

  Status Complete() const {
    if (!verb().verbs().empty()) {
      std::string names;
      for (const Verb& one : verb().verbs()) {
        if (!one.hidden()) names += (names.empty() ? "" : ", ") + one.name();
      }
      return Wrong("a command is missing: " + names);
    }
    if (given_ >= verb().arguments().size()) return {};  // a list may be longer
    const Argument& next = verb().arguments()[given_];
    const bool may_be_left_out = next.unless != nullptr && !next.unless->empty();
    if (next.required && !may_be_left_out) return Wrong(next.name + " is missing");
    return {};
  }

  Words words_;  // words not yet parsed
  Line& line_;
  size_t given_ = 0;  // number of arguments so far
};

}  // namespace

Result<int> Range::Read(const std::string& text) const {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  bool read = error == std::errc() && rest == end;
  if (duration) {
    const auto seconds = ParseDuration(text);
    read = seconds.has_value();
    number = seconds.value_or(0);
  }
  if (read && number >= least && number <= most) return static_cast<int>(number);
  return Wrong("'" + text + "': " +
               (duration ? "a duration from " + DurationText(least) + " to " + DurationText(most) +
                               " is expected, such as 90s, 5m, 2h or 1d"
                         : "a whole number from " + std::to_string(least) + " to " +
                               std::to_string(most) + " is expected"));
}

Words Option::AllNames() const {
  return SplitNames(names);
}

Verb::Verb(std::string names, std::string what, const Verb* parent)
    : names_(SplitNames(names)), what_(std::move(what)), parent_(parent) {}

Verb& Verb::Add(std::string names, std::string what) {
  return verbs_.emplace_back(std::move(names), std::move(what), this);
}

Verb& Verb::Takes(Option option) {
  options_.push_back(std::move(option));
  return *this;
}

Verb& Verb::Takes(Argument argument) {
  arguments_.push_back(std::move(argument));
  return *this;
}

Verb& Verb::TakesCommand(Argument argument) {
  has_command_ = true;
  return Takes(std::move(argument));
}

Verb& Verb::Says(std::string text) {
  text_ = std::move(text);
  return *this;
}

Verb& Verb::Hidden() {
  hidden_ = true;
  return *this;
}

std::string Verb::Path() const {
  return parent_ == nullptr ? name() : parent_->Path() + " " + name();
}

const Verb* Verb::Find(const std::string& name) const {
  for (const Verb& verb : verbs_) {
    if (std::find(verb.names_.begin(), verb.names_.end(), name) != verb.names_.end()) return &verb;
  }
  return nullptr;
}

const Option* Verb::FindOption(const std::string& name) const {
  for (const Option& option : options_) {
    const Words all = option.AllNames();
    if (std::find(all.begin(), all.end(), name) != all.end()) return &option;
  }
  return parent_ == nullptr ? nullptr : parent_->FindOption(name);
}

Status ReadLine(const Verb& root, const Words& words, Line* line) {
  line->verb = &root;
  for (const Option& option : root.options()) {
    const char* const value =
        option.variable.empty() ? nullptr : std::getenv(option.variable.c_str());
    if (value == nullptr) continue;
    Words option_of_it = {option.AllNames().back(), value};
    ATOLL_TRY(TakeOptions(root, &option_of_it, &line->help));
  }
  ATOLL_TRY(LineReader(words, line).Run());
  return line->verb->has_command() ? CheckText(words) : Status();
}

}  // namespace atl::cli
