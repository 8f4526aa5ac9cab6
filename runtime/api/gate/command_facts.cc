#include "runtime/api/gate/command_facts.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/api/gate/credential.h"
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
    return plain ? WithoutTokens(word) : "?";
  }
  return "?";
}

// The members of a body that execd looks at.
struct Members {
  nlohmann::json command;
  nlohmann::json argv;
  nlohmann::json code;
  nlohmann::json cwd;
  nlohmann::json uid;
  bool readable = false;   // the body begins with an object
  bool ambiguous = false;  // another parser may read it otherwise
};

// Finds members as execd does, or a client could run one command and have another recorded: names
// are compared without case, the last one counts, and what follows the object is ignored.
Members MembersOf(std::string_view body) {
  Members members;
  std::set<std::string> names;
  const auto take = [&](const std::string& name, nlohmann::json value) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(), http::ToLower);
    for (const auto& [wanted, member] :
         {std::pair{"command", &members.command}, std::pair{"argv", &members.argv},
          std::pair{"code", &members.code}, std::pair{"cwd", &members.cwd},
          std::pair{"uid", &members.uid}}) {
      if (lower == wanted) *member = std::move(value);
    }
    if (!names.insert(std::move(lower)).second) members.ambiguous = true;
  };
  const ObjectText read = VisitMembers(body, take);
  members.readable = read != ObjectText::kNone;
  members.ambiguous = members.ambiguous || read == ObjectText::kTrailing;
  return members;
}

std::string TextOf(const nlohmann::json& member) {
  return member.is_string() ? member.get<std::string>() : std::string();
}

void AddMembers(const Members& members, Level level,
                const std::function<std::string(std::string_view)>& hmac,
                std::vector<Fact>* facts) {
  std::string command = TextOf(members.command);
  std::vector<std::string_view> words;
  std::vector<std::string> argv;
  if (members.argv.is_array()) {
    for (const auto& word : members.argv) argv.push_back(TextOf(word));
    for (const std::string& word : argv) {
      words.push_back(word);
      command.append(command.empty() ? "" : " ").append(word);
    }
  } else {
    words = WordsOf(command);
  }
  if (!words.empty()) {
    facts->push_back({"argv0", argv.empty() ? ProgramOf(words) : ProgramOf({words.front()})});
    facts->push_back({"argc", static_cast<int64_t>(words.size())});
    facts->push_back({"argv_hmac", hmac(command)});
  }
  const std::string code = TextOf(members.code);
  if (!code.empty()) {
    facts->push_back({"code_bytes", static_cast<int64_t>(code.size())});
    facts->push_back({"code_hmac", hmac(code)});
  }
  if (const std::string cwd = TextOf(members.cwd); !cwd.empty()) {
    facts->push_back({"cwd", WithoutSecrets(cwd)});
  }
  if (members.uid.is_number_unsigned()) facts->push_back({"uid", members.uid.get<int64_t>()});
  if (level == Level::kFull) {
    if (!command.empty()) facts->push_back({"command", WithoutSecrets(command)});
    if (!code.empty()) facts->push_back({"code", WithoutSecrets(code)});
  }
}

}  // namespace

std::string WithoutSecrets(std::string_view given) {
  const std::string hidden = WithoutTokens(given);
  const std::string_view text = hidden;
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
  const Members members = whole ? MembersOf(body) : Members{};
  if (members.readable) AddMembers(members, level, hmac, &facts);
  facts.push_back({"body_hmac", hmac(body)});
  if (!whole) {
    facts.push_back({"body_cut_at", static_cast<int64_t>(body.size())});
  } else if (members.ambiguous || !members.readable) {
    facts.push_back({"ambiguous", 1});
  }
  return facts;
}

}  // namespace atl::api
