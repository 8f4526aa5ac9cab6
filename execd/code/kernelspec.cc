#include "execd/code/kernelspec.h"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

constexpr size_t kMaxPaths = 64;
constexpr size_t kMaxSpecs = 256;
constexpr size_t kMaxSpecFile = 64 << 10;
constexpr time_t kSetUpSeconds = 60;

void AddDataDirectory(std::vector<std::string>* paths, std::string_view directory) {
  if (directory.empty() || directory[0] != '/' || paths->size() == kMaxPaths) return;
  std::string path(directory);
  path.append("/kernels");
  if (std::find(paths->begin(), paths->end(), path) == paths->end()) {
    paths->push_back(std::move(path));
  }
}

// Calls `use` for each part between colons.
template <typename Use>
void EachPart(const char* list, const Use& use) {
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    use(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// Returns the sorted names of kernels in a directory; none if the directory does not exist.
std::vector<std::string> KernelNames(const std::string& directory, size_t limit) {
  std::vector<std::string> names;
  const auto fd = sys::Open(directory, O_RDONLY | O_DIRECTORY);
  if (!fd) return names;
  // An error is ignored; the names read before it are used.
  static_cast<void>(sys::EachName(fd->get(), [&names, limit](const char* name) {
    names.emplace_back(name);
    return names.size() < limit;
  }));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool KernelsMayCome(const Environment& env, time_t started_at) {
  const char* host = env.Get("JUPYTER_HOST");
  return host != nullptr && *host != '\0' && ::time(nullptr) - started_at < kSetUpSeconds;
}

std::vector<std::string> KernelspecPaths(const Environment& env, std::string_view home) {
  std::vector<std::string> paths;
  const auto value = [&env](const char* name) -> std::string {
    const char* text = env.Get(name);
    return text ? text : "";
  };
  EachPart(env.Get("JUPYTER_PATH"),
           [&paths](std::string_view part) { AddDataDirectory(&paths, part); });
  if (!value("JUPYTER_DATA_DIR").empty()) {
    AddDataDirectory(&paths, value("JUPYTER_DATA_DIR"));
  } else if (!value("XDG_DATA_HOME").empty()) {
    AddDataDirectory(&paths, value("XDG_DATA_HOME") + "/jupyter");
  } else {
    AddDataDirectory(&paths, std::string(home) + "/.local/share/jupyter");
  }
  const char* path = env.Get("PATH");
  EachPart(path ? path : kDefaultPath, [&paths](std::string_view part) {
    if (!part.ends_with("/bin")) return;
    AddDataDirectory(&paths, std::string(part.substr(0, part.size() - 3)) + "share/jupyter");
  });
  AddDataDirectory(&paths, "/usr/local/share/jupyter");
  AddDataDirectory(&paths, "/usr/share/jupyter");
  return paths;
}

Result<Kernelspec> FindKernelspec(std::string_view language, const Environment& env,
                                  std::string_view home, const Identity& user) {
  const FileIdentity as(user);
  std::optional<Kernelspec> found;
  std::set<std::string> names, languages;
  for (const std::string& directory : KernelspecPaths(env, home)) {
    if (names.size() >= kMaxSpecs) break;
    for (std::string& name : KernelNames(directory, kMaxSpecs - names.size())) {
      // An earlier directory takes precedence for a name.
      if (names.contains(name)) continue;
      const std::string kernel = directory + "/" + name;
      auto text = ReadSmallFile(kernel + "/kernel.json", kMaxSpecFile);
      if (!text) continue;
      names.insert(name);
      auto spec = ParseKernelspec(*std::move(text));
      if (!spec) continue;
      languages.insert(spec->language);
      if (!http::EqualNoCase(spec->language, language)) continue;
      const bool exact = http::EqualNoCase(name, language);
      if (found && !exact) continue;
      spec->name = std::move(name);
      spec->directory = kernel;
      if (exact) return spec;
      found = std::move(*spec);
    }
  }
  if (found) return *std::move(found);
  std::string known;
  for (const std::string& each : languages) known.append(known.empty() ? "" : ", ").append(each);
  return Fail(Code::kNotFound,
              "language '" + std::string(language) + "': the image has no Jupyter kernel for it (" +
                  (known.empty() ? "it has none at all" : "it has: " + known) + ")");
}

}  // namespace atl::execd
