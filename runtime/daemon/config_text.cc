#include "runtime/daemon/config_text.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

constexpr size_t kColumns = 96;

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

std::string Row(const Key& key, std::string_view row) {
  std::string text = "{ ";
  for (const char* field : key.fields) {
    const size_t end = field == key.fields.back() ? row.size() : row.find(':');
    text.append(field == key.fields.front() ? "" : ", ").append(field).append(" = ");
    text.append(Quoted(row.substr(0, end)));
    row.remove_prefix(end == row.size() ? end : end + 1);
  }
  return text + " }";
}

std::string Value(const Key& key, const std::vector<std::string>& values) {
  switch (key.kind) {
    case Key::Kind::kNumber:
    case Key::Kind::kBool:
      return values[0];
    case Key::Kind::kText:
    case Key::Kind::kQuantity:
      return Quoted(values[0]);
    case Key::Kind::kList:
    case Key::Kind::kRows:
      break;
  }
  std::string list = "[";
  for (const std::string& value : values) {
    if (list.size() > 1) list.append(", ");
    list.append(key.kind == Key::Kind::kRows ? Row(key, value) : Quoted(value));
  }
  return list + "]";
}

std::string Comment(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    size_t end = text.size();
    if (end > kColumns) end = text.rfind(' ', kColumns);
    lines.append("# ").append(text.substr(0, end)).append("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Calls `write` for each key, except other names of a key, below its section's heading.
template <typename Write>
std::string Sections(Write write) {
  std::string text;
  std::string_view section;
  for (const Key& key : Keys()) {
    if (!key.get) continue;
    if (section != key.section) text.append("\n[").append(key.section).append("]\n");
    section = key.section;
    text.append(write(key));
  }
  return text;
}

bool IsSet(const std::vector<std::string>& values) {
  return !values.empty() && !values[0].empty();
}

}  // namespace

std::string ExampleConfig() {
  const Config defaults;
  return Comment(
             "Atoll's configuration: every key with its default. To change a key, remove its '#', "
             "then run 'atolld --check-config', then 'systemctl reload atolld' for keys marked "
             "(reload), or 'systemctl restart atolld' for all others.") +
         Sections([&defaults](const Key& key) {
           const std::string help = key.help + (key.live ? " (reload)" : "");
           return Comment(help) + "#" + key.name + " = " + Value(key, key.get(defaults)) + "\n";
         });
}

std::string EffectiveConfig(const Config& config) {
  return Sections([&config](const Key& key) {
    const std::vector<std::string> values = key.get(config);
    if (key.secret && IsSet(values)) return std::string("# ") + key.name + " is set\n";
    return std::string(key.name) + " = " + Value(key, values) + "\n";
  });
}

Status WriteExampleConfig(const std::string& path, bool force) {
  const size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return FailSys("mkdir " + directory);
  }
  ATOLL_ASSIGN(const UniqueFd parent, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  if (!force && ::faccessat(parent.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    return Fail(Code::kAlreadyExists, path + " exists: use --force to replace it");
  }
  ATOLL_TRY(sys::ReplaceFileAt(parent.get(), name, ExampleConfig(), 0600));
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are threads.
  const passwd* user = ::getpwnam(Config().user.c_str());
  if (user == nullptr || ::geteuid() != 0) return {};
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(parent.get(), name, O_RDONLY | O_NOFOLLOW));
  if (::fchown(file.get(), 0, user->pw_gid) != 0) return FailSys("fchown " + path);
  if (::fchmod(file.get(), 0640) != 0) return FailSys("fchmod " + path);
  return {};
}

}  // namespace atl::daemon
