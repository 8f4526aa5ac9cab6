#include "images/unpack/members.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/report.h"
#include "images/unpack/entry_path.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

constexpr char kOwnPrefix[] = "member-";

// Returns the name in the directory of a member that later code asks for; empty for all others.
std::string KnownName(const std::vector<std::string>& path) {
  if (path.size() == 1 &&
      (path[0] == "oci-layout" || path[0] == "index.json" || path[0] == "manifest.json")) {
    return path[0];
  }
  if (path.size() == 3 && path[0] == "blobs" && path[1] == "sha256" &&
      IsSha256Digest("sha256:" + path[2])) {
    return path[2];
  }
  return {};
}

// Resolves a symbolic link by its text only. Empty if it leads out of the archive.
std::string LinkTarget(std::vector<std::string> path, std::string_view target) {
  if (target.starts_with('/')) return {};
  path.pop_back();
  while (!target.empty()) {
    const size_t slash = target.find('/');
    const std::string_view part = target.substr(0, slash);
    target.remove_prefix(slash == std::string_view::npos ? target.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      path.emplace_back(part);
    } else if (path.empty()) {
      return {};
    } else {
      path.pop_back();
    }
  }
  return JoinPath(path);
}

}  // namespace

Status Members::AddLink(struct archive_entry* entry, const std::vector<std::string>& path) {
  std::string target;
  if (const char* hard = archive_entry_hardlink(entry)) {
    ATOLL_ASSIGN(const std::vector<std::string> parsed, ParseEntryPath(hard));
    target = JoinPath(parsed);
  } else if (const char* symbolic = archive_entry_symlink(entry)) {
    if (std::string_view(symbolic).size() <= kMaxPath) target = LinkTarget(path, symbolic);
  }
  links_.emplace(JoinPath(path), std::move(target));
  return {};
}

Status Members::Add(TarReader& reader, struct archive_entry* entry, const std::string& name) {
  ATOLL_ASSIGN(const std::vector<std::string> path, ParseEntryPath(name));
  const std::string known = KnownName(path);
  const std::string joined = JoinPath(path);
  const auto type = archive_entry_filetype(entry);
  const bool link = archive_entry_hardlink(entry) != nullptr || type == AE_IFLNK;
  if (link || type != AE_IFREG) {
    if (!known.empty()) return Fail(Code::kInvalidArgument, "not a regular file");
    if (!link) return {};
  }
  if (files_.contains(joined) || links_.contains(joined)) {
    return Fail(Code::kInvalidArgument, "the archive contains it twice");
  }
  if (link) return AddLink(entry, path);
  if (known.ends_with(".json") && archive_entry_size(entry) > int64_t{kMaxJsonBytes}) {
    return Fail(Code::kResourceExhausted,
                "larger than the " + std::to_string(kMaxJsonBytes) + " bytes allowed");
  }
  const std::string file = known.empty() ? kOwnPrefix + std::to_string(files_.size()) : known;
  ATOLL_ASSIGN(const UniqueFd fd,
               sys::OpenBeneath(directory_, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  files_.emplace(joined, file);
  return reader.CopyContent(entry, fd.get());
}

Result<std::string> Members::FileOf(const std::string& path) const {
  // Archives may write a path differently: "./a//b" is "a/b".
  auto parsed = ParseEntryPath(path);
  if (!parsed) return Fail(std::move(parsed).error().Wrap("'" + Printable(path) + "'"));
  std::string joined = JoinPath(*parsed);
  const auto link = links_.find(joined);
  if (link != links_.end()) {
    if (link->second.empty() || !files_.contains(link->second)) {
      return Fail(Code::kInvalidArgument,
                  "'" + Printable(path) + "' is a link that leads to no file of the archive");
    }
    joined = link->second;
  }
  const auto file = files_.find(joined);
  if (file == files_.end()) {
    return Fail(Code::kInvalidArgument, "'" + Printable(path) + "' is missing in the archive");
  }
  return file->second;
}

Result<UniqueFd> Members::Open(const std::string& path) const {
  ATOLL_ASSIGN(const std::string file, FileOf(path));
  return sys::OpenBeneath(directory_, file, O_RDONLY | O_NOFOLLOW);
}

Status Members::Name(const std::string& path, const std::string& blob) const {
  ATOLL_ASSIGN(const std::string file, FileOf(path));
  if (::linkat(directory_, file.c_str(), directory_, blob.c_str(), 0) != 0 && errno != EEXIST) {
    return FailSys("link " + file + " " + blob);
  }
  return {};
}

Result<uint64_t> Members::Finish() {
  uint64_t kept = 0;
  for (const auto& [path, file] : files_) {
    if (!file.starts_with(kOwnPrefix)) {
      ++kept;
    } else if (::unlinkat(directory_, file.c_str(), 0) != 0) {
      return FailSys("unlink " + file);
    }
  }
  return kept;
}

}  // namespace atl::images::unpack
