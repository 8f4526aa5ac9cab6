// Remembers the name under which an archive holds a file with several hard links.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "images/report.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

class HardLinks {
 public:
  // Most files of which further names are still expected: 250,000 names of usual length take some
  // 50 MiB. A file is forgotten when all of its names were seen.
  static constexpr size_t kMaxOpen = 250'000;

  // Returns the name under which the archive holds `file`. Returns "" for the first name, and
  // remembers it. kInvalidArgument: more than kMaxOpen files are pending.
  Result<std::string> NameOf(const struct stat& file, std::string_view path) {
    const std::pair key(file.st_dev, file.st_ino);
    const auto found = open_.find(key);
    if (found == open_.end()) {
      if (open_.size() >= kMaxOpen) {
        return Fail(Code::kInvalidArgument,
                    "more than " + std::to_string(kMaxOpen) +
                        " files have names in several places: " + Printable(path, 80));
      }
      open_.try_emplace(key, std::string(path), file.st_nlink - 1);
      return std::string();
    }
    if (--found->second.left > 0) return found->second.name;
    return std::move(open_.extract(found).mapped().name);
  }

 private:
  struct Open {
    Open(std::string first, nlink_t names) : name(std::move(first)), left(names) {}
    std::string name;
    nlink_t left;
  };
  std::map<std::pair<dev_t, ino_t>, Open> open_;
};

}  // namespace atl::images::unpack
