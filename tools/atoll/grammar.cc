#include "tools/atoll/grammar.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "tools/atoll/docker_words.h"
#include "tools/atoll/nearest.h"

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

tl::unexpected<Error> Wrong(const std::string& text) {
  return Fail(Code::kInvalidArgument, text);
}

// `name` is that of the option or argument, for errors.
Status Store(const Target& target, const Range& range, const std::string& name,
             const std::string& value) {
  if (auto* const text = std::get_if<std::string*>(&target)) {
    **text = value;
  } else if (auto* const list = std::get_if<Words*>(&target)) {
    (*list)->push_back(value);
  } else if (auto* const number = std::get_if<int*>(&target)) {
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, **number);
    if (error != std::errc() || rest != end || **number < range.least || **number > range.most) {
      return Wrong(name + " '" + value + "': a whole number from " + std::to_string(range.least) +
                   " to " + std::to_string(range.most) + " is expected");
    }
  } else if (value != "true" && value != "false") {
    return Wrong(name + " is on or off: write " + name + " alone");
  } else {
    *std::get<bool*>(target) = value == "true";
  }
  return {};
}

class Reader {
 public:
  Reader(const Words& words, Line* line) : words_(words), line_(*line) {}

  Status Run() {
    for (; at_ < words_.size() && !line_.help; ++at_) {
      const std::string& word = words_[at_];
      if (!only_words_ && word == "--") {
        ATOLL_TRY(DoubleDash());
      } else if (!only_words_ && word.size() > 1 && word.front() == '-') {
        ATOLL_TRY(word[1] == '-' ? LongOption(word) : Letters(word));
      } else {
        ATOLL_TRY(Plain(word));
      }
    }
    return line_.help ? Status() : Complete();
  }

 private:
  const Verb& verb() const { return *line_.verb; }
  // Arguments before a command.
  size_t fixed() const { return verb().arguments().size() - (verb().has_command() ? 1 : 0); }

  Status DoubleDash() {
    if (verb().has_command() && given_ < fixed()) {
      return Wrong(verb().arguments()[given_].name + " is missing before --");
    }
    only_words_ = true;
    if (verb().has_command()) TakeRest(at_ + 1);
    return {};
  }

  void TakeRest(size_t from) {
    Words& command = *std::get<Words*>(verb().arguments().back().target);
    command.assign(words_.begin() + static_cast<ptrdiff_t>(std::min(from, words_.size())),
                   words_.end());
    at_ = words_.size();
    given_ += command.empty() ? 0 : 1;
  }

  Status Plain(const std::string& word) {
    if (!verb().verbs().empty()) {
      const Verb* const next = verb().Find(word);
      if (next == nullptr) return Wrong(UnknownVerb(verb(), word));
      line_.verb = next;
      return {};
    }
    if (verb().has_command() && given_ == fixed()) {
      TakeRest(at_);
      return {};
    }
    const auto& arguments = verb().arguments();
    const bool list = !arguments.empty() && std::holds_alternative<Words*>(arguments.back().target);
    if (given_ >= arguments.size() && !list) return Wrong("'" + word + "' is one word too many");
    const Argument& argument = arguments[std::min(given_, arguments.size() - 1)];
    ++given_;
    return Store(argument.target, argument.range, argument.name, word);
  }

  Status Unknown(const std::string& name) const { return Wrong(UnknownOption(verb(), name)); }

  Status LongOption(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name == "--help") {
      line_.help = true;
      return {};
    }
    const Option* const option = verb().FindOption(name);
    if (option == nullptr) return Unknown(name);
    if (equals != std::string::npos) return Give(*option, name, word.substr(equals + 1));
    return option->value.empty() ? Give(*option, name, "true") : GiveNext(*option, name);
  }

  // "-it", "-w/tmp", "-w /tmp".
  Status Letters(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = std::string("-") + word[i];
      const Option* const option = verb().FindOption(name);
      if (option == nullptr && name == "-h") {
        line_.help = true;
        return {};
      }
      // "-dit" of a verb without -d is less telling than "-d".
      if (option == nullptr) return Unknown(name);
      if (option->value.empty()) {
        ATOLL_TRY(Give(*option, name, "true"));
      } else if (i + 1 == word.size()) {
        return GiveNext(*option, name);
      } else {
        return Give(*option, name, word.substr(i + (word[i + 1] == '=' ? 2 : 1)));
      }
    }
    return {};
  }

  Status GiveNext(const Option& option, const std::string& name) {
    if (++at_ >= words_.size()) return Wrong(name + " needs a value: " + option.value);
    return Give(option, name, words_[at_]);
  }

  static Status Give(const Option& option, const std::string& name, const std::string& value) {
    return Store(option.target, option.range, name, value);
  }

  Status Complete() const {
    if (!verb().verbs().empty()) {
      std::string names;
      for (const Verb& one : verb().verbs()) {
        if (!one.hidden()) names += (names.empty() ? "" : ", ") + one.name();
      }
      return Wrong("a command is missing: " + names);
    }
    if (given_ < verb().arguments().size() && verb().arguments()[given_].required) {
      return Wrong(verb().arguments()[given_].name + " is missing");
    }
    return {};
  }

  const Words& words_;
  Line& line_;
  size_t at_ = 0;
  size_t given_ = 0;  // arguments
  bool only_words_ = false;
};

}  // namespace

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
    if (value != nullptr) ATOLL_TRY(Store(option.target, option.range, option.variable, value));
  }
  return Reader(words, line).Run();
}

}  // namespace atl::cli
