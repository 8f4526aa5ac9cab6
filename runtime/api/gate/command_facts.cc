#include "runtime/api/gate/command_facts.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "runtime/api/gate/secret_name.h"
#include "runtime/base/json_text.h"
#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

using audit::Fact;
using audit::Level;

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kEnds = " \t\r\n\"'`;&|)";
constexpr size_t kMaxProgram = 64;

bool IsNameByte(char c) {
  return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_' || c == '-';
}

// Returns the name that ends at `end`.
std::string_view NameBefore(std::string_view text, size_t end) {
  size_t start = end;
  while (start > 0 && IsNameByte(text[start - 1])) --start;
  return text.substr(start, end - start);
}

size_t EndOfValue(std::string_view text, size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    const size_t close = text.find(text[at], at + 1);
    return close == std::string_view::npos ? text.size() : close + 1;
  }
  return std::min(text.find_first_of(kEnds, at), text.size());
}

// Returns the words between blanks, which is near enough to a shell's to count them.
std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return words;
    const size_t end = std::min(text.find_first_of(kBlanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// Returns the file name of the program if it looks like one. Assignments before it are skipped,
// because their values may be secrets.
std::string ProgramOf(const std::vector<std::string_view>& words) {
  for (std::string_view word : words) {
    if (word.find('=') != std::string_view::npos) continue;
    word.remove_prefix(word.rfind('/') + 1);
    const bool plain = !word.empty() && word.size() <= kMaxProgram &&
                       std::all_of(word.begin(), word.end(),
                                   [](char c) { return IsNameByte(c) || c == '.' || c == '+'; });
    return plain ? std::string(word) : "?";
  }
  return "?";
}

}  // namespace

std::string WithoutSecrets(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    // NAME=VALUE, and "--name VALUE" with a blank in place of '='.
    const std::string_view name =
        c == '=' || c == ':' || c == ' ' ? NameBefore(text, at) : std::string_view();
    const bool option = c != ' ' || name.starts_with("--");
    const bool bearer =
        c == ' ' && (http::EqualNoCase(name, "bearer") || http::EqualNoCase(name, "basic"));
    if (bearer || (option && !name.empty() && IsSecretName(name))) {
      size_t from = text.find_first_not_of(c == '=' ? "=" : ": ", at);
      if (from == std::string_view::npos) from = text.size();
      const size_t end = EndOfValue(text, from);
      shown.append(text.substr(at, from - at));
      if (end > from) shown.append(kHidden);
      at = end;
      continue;
    }
    if (text.substr(at).starts_with("://")) {
      const std::string_view rest = text.substr(at + 3);
      const std::string_view authority = rest.substr(0, rest.find_first_of("/?# \t\r\n\"'"));
      shown.append("://");
      at += 3;
      if (const size_t user = authority.rfind('@'); user != std::string_view::npos) {
        shown.append(kHidden);
        at += user;
      }
      continue;
    }
    shown.push_back(c);
    ++at;
  }
  return shown;
}

std::vector<Fact> CommandFacts(std::string_view body, bool whole, Level level,
                               const std::function<std::string(std::string_view)>& hmac) {
  std::vector<Fact> facts;
  if (level < Level::kArgv || body.empty()) return facts;
  const nlohmann::json parsed = whole ? JsonOrNull(body) : nlohmann::json();
  if (!parsed.is_object()) {
    facts.push_back({"body_hmac", hmac(body)});
    if (!whole) facts.push_back({"body_cut_at", static_cast<int64_t>(body.size())});
    return facts;
  }
  const auto text_of = [&parsed](const char* name) {
    const auto found = parsed.find(name);
    return found != parsed.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  std::string command = text_of("command");
  std::vector<std::string_view> words;
  std::vector<std::string> argv;
  if (const auto found = parsed.find("argv"); found != parsed.end() && found->is_array()) {
    for (const auto& word : *found) argv.push_back(word.is_string() ? word.get<std::string>() : "");
    for (const std::string& word : argv) {
      words.push_back(word);
      command.append(command.empty() ? "" : " ").append(word);
    }
  } else {
    words = WordsOf(command);
  }
  if (!words.empty()) {
    facts.push_back({"argv0", argv.empty() ? ProgramOf(words) : ProgramOf({words.front()})});
    facts.push_back({"argc", static_cast<int64_t>(words.size())});
    facts.push_back({"argv_hmac", hmac(command)});
  }
  const std::string code = text_of("code");
  if (!code.empty()) {
    facts.push_back({"code_bytes", static_cast<int64_t>(code.size())});
    facts.push_back({"code_hmac", hmac(code)});
  }
  if (std::string cwd = text_of("cwd"); !cwd.empty()) {
    facts.push_back({"cwd", WithoutSecrets(cwd)});
  }
  if (const auto uid = parsed.find("uid"); uid != parsed.end() && uid->is_number_unsigned()) {
    facts.push_back({"uid", uid->get<int64_t>()});
  }
  if (level == Level::kFull) {
    if (!command.empty()) facts.push_back({"command", WithoutSecrets(command)});
    if (!code.empty()) facts.push_back({"code", WithoutSecrets(code)});
  }
  return facts;
}

}  // namespace atl::api
