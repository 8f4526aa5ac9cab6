#include "runtime/tenants/audit/level.h"

#include <array>
#include <utility>

namespace atl::audit {
namespace {

constexpr std::array<std::pair<std::string_view, Level>, 4> kLevels = {{
    {"none", Level::kNone},
    {"meta", Level::kMeta},
    {"argv", Level::kArgv},
    {"full", Level::kFull},
}};
// Lines that tell of the log itself, or of attacks on it, cannot be turned off.
constexpr std::string_view kAlways[] = {"audit.", "login.failed", "authz.denied", "daemon."};

bool IsAction(std::string_view text) {
  return !text.empty() && text.size() <= 40 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz._") == std::string_view::npos;
}

}  // namespace

Result<Levels> Levels::Parse(const std::vector<std::string>& rules) {
  Levels levels;
  for (const std::string& text : rules) {
    const size_t equals = text.find('=');
    Rule rule{.action = text.substr(0, equals)};
    if (rule.action.ends_with('*')) {
      rule.group = true;
      rule.action.pop_back();
    }
    const std::string word = equals == std::string::npos ? "" : text.substr(equals + 1);
    bool known = false;
    for (const auto& [name, level] : kLevels) {
      if (word != name) continue;
      rule.level = level;
      known = true;
    }
    if (!known || (!IsAction(rule.action) && !(rule.group && rule.action.empty()))) {
      return Fail(Code::kInvalidArgument,
                  "'" + text.substr(0, 100) +
                      "': write ACTION=LEVEL, such as exec.*=full; levels are none, meta, argv "
                      "and full");
    }
    levels.rules_.push_back(std::move(rule));
  }
  return levels;
}

Level Levels::For(std::string_view action) const {
  Level level = action.starts_with("exec.") ? Level::kArgv : Level::kMeta;
  for (const Rule& rule : rules_) {
    if (rule.group ? action.starts_with(rule.action) : action == rule.action) level = rule.level;
  }
  if (level != Level::kNone) return level;
  for (const std::string_view always : kAlways) {
    if (action.starts_with(always)) return Level::kMeta;
  }
  return level;
}

}  // namespace atl::audit
