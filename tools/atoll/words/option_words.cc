#include "tools/atoll/words/option_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <stdexcept>

namespace atl::cli {
namespace {

// Parses the options of a verb and of the verbs above it. A verb's own option takes precedence: its
// -h replaces the help option.
class OptionReader {
 public:
  explicit OptionReader(const Verb& verb) {
    // Stops at the first word that is no option, because the meaning of that word depends on the
    // verb.
    app_.prefix_command();
    app_.set_help_flag();
    for (const Verb* one = &verb; one != nullptr; one = one->parent()) {
      for (const Option& option : one->options()) Add(option);
    }
    const std::string names = NewNames({"-h", "--help"});
    if (!names.empty()) app_.add_flag(names, help_);
  }

  // Parses `words` and returns the rest.
  Words Read(Words words) {
    std::reverse(words.begin(), words.end());
    app_.parse(std::move(words));
    return app_.remaining();
  }
  bool help() const { return help_; }

 private:
  // Returns the names that are not taken yet, in CLI11's form.
  std::string NewNames(const Words& all) {
    std::string names;
    for (const std::string& name : all) {
      if (taken_.insert(name).second) names += (names.empty() ? "" : ",") + name;
    }
    return names;
  }

  void Add(const Option& option) {
    const std::string names = NewNames(option.AllNames());
    if (names.empty()) return;
    if (bool* const* flag = std::get_if<bool*>(&option.target)) {
      app_.add_flag_function(names, [on = *flag](int64_t count) { *on = count > 0; });
      return;
    }
    CLI::Option* made = nullptr;
    if (std::string* const* text = std::get_if<std::string*>(&option.target)) {
      made = app_.add_option_function<std::string>(
          names, [to = *text](const std::string& value) { *to = value; });
    } else if (int* const* number = std::get_if<int*>(&option.target)) {
      made = app_.add_option_function<std::string>(
          names, [to = *number, &option](const std::string& value) {
            const auto read = option.range.Read(value);
            if (!read) throw CLI::ValidationError(option.AllNames().back(), read.error().message());
            *to = *read;
          });
    } else {
      // The option may be repeated between words and is then parsed in several turns, so values are
      // appended.
      made = app_.add_option_function<Words>(
          names, [to = std::get<Words*>(option.target)](const Words& values) {
            to->insert(to->end(), values.begin(), values.end());
          });
      made->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    if (!std::holds_alternative<Words*>(option.target)) made->take_last();
    // Otherwise a list would take all words that follow.
    made->allow_extra_args(false)->type_name(option.value);
  }

  CLI::App app_;
  std::set<std::string> taken_;
  bool help_ = false;
};

}  // namespace

Status TakeOptions(const Verb& verb, Words* words, bool* help) {
  OptionReader reader(verb);
  try {
    *words = reader.Read(std::move(*words));
  } catch (const CLI::Error& wrong) {
    return Fail(Code::kInvalidArgument, wrong.what());
  } catch (const std::logic_error&) {
    // Thrown by std::stoll, to which CLI11 2.1 passes the value of a flag.
    return Fail(Code::kInvalidArgument, "an option that takes no value was given one");
  }
  *help = *help || reader.help();
  return {};
}

}  // namespace atl::cli
