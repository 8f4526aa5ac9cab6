#include "images/unpack/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "images/unpack/entry_path.h"
#include "images/unpack/pack.h"
#include "images/unpack/tar_reader.h"
#include "images/unpack/tree.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

// Highest id of a sandbox's user namespace, and the owner of files whose id does not exist there.
constexpr int64_t kMaxId = 65535;
constexpr uint32_t kNobody = 65534;

class Extraction {
 public:
  Extraction(TarReader reader, LayerTree tree)
      : reader_(std::move(reader)), tree_(std::move(tree)) {}

  Result<UnpackReport> Run();

 private:
  Status AddEntry(struct archive_entry* entry, const std::string& name);
  Status AddPlain(struct archive_entry* entry, const Path& path);
  Attributes ReadAttributes(struct archive_entry* entry);
  void ReadXattrs(struct archive_entry* entry, Attributes& attributes);

  TarReader reader_;
  LayerTree tree_;
  UnpackReport report_;
};

void Extraction::ReadXattrs(struct archive_entry* entry, Attributes& attributes) {
  size_t room = kMaxXattrRoom;
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  archive_entry_xattr_reset(entry);
  while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
    const std::string_view bytes(static_cast<const char*>(value), size);
    const std::string_view key = name != nullptr ? name : "";
    if (!KeepsXattr(key, bytes) || XattrRoom(key, bytes) > room) {
      ++report_.dropped_xattrs;
      continue;
    }
    room -= XattrRoom(key, bytes);
    attributes.xattrs.emplace_back(key, bytes);
  }
}

Attributes Extraction::ReadAttributes(struct archive_entry* entry) {
  Attributes attributes;
  const int64_t uid = archive_entry_uid(entry);
  const int64_t gid = archive_entry_gid(entry);
  const auto exists = [](int64_t id) { return id >= 0 && id <= kMaxId; };
  attributes.uid = exists(uid) ? static_cast<uid_t>(uid) : kNobody;
  attributes.gid = exists(gid) ? static_cast<gid_t>(gid) : kNobody;
  attributes.mode = archive_entry_mode(entry) & 07777;
  if (!exists(uid) || !exists(gid)) {
    // Files that now belong to nobody lose their set-id bits: they were granted by the real owner.
    attributes.mode &= ~static_cast<mode_t>(S_ISUID | S_ISGID);
    ++report_.replaced_owners;
  }
  attributes.mtime.tv_sec = archive_entry_mtime(entry);
  attributes.mtime.tv_nsec = std::clamp(archive_entry_mtime_nsec(entry), 0L, 999'999'999L);
  ReadXattrs(entry, attributes);
  return attributes;
}

Status Extraction::AddPlain(struct archive_entry* entry, const Path& path) {
  if (const char* link = archive_entry_hardlink(entry)) {
    if (path.empty()) return Fail(Code::kInvalidArgument, "the root directory must be a directory");
    auto target = ParseEntryPath(link);
    if (!target)
      return Fail(std::move(target).error().Wrap("hard link to '" + Printable(link) + "'"));
    return tree_.AddHardLink(path, *target);
  }
  const auto type = archive_entry_filetype(entry);
  if (path.empty() && type != AE_IFDIR) {
    return Fail(Code::kInvalidArgument, "the root directory must be a directory");
  }
  // A sandbox has its own /dev, and may open no device elsewhere.
  if (type == AE_IFCHR || type == AE_IFBLK) {
    ++report_.skipped_devices;
    return {};
  }
  const Attributes attributes = ReadAttributes(entry);
  switch (type) {
    case AE_IFREG:
      return tree_.AddFile(path, attributes,
                           [&](int fd) { return reader_.CopyContent(entry, fd); });
    case AE_IFDIR:
      return tree_.AddDirectory(path, attributes);
    case AE_IFIFO:
      return tree_.AddFifo(path, attributes);
    case AE_IFLNK: {
      const char* target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0' || std::string_view(target).size() > kMaxPath) {
        return Fail(Code::kInvalidArgument, "a symbolic link whose target is empty or too long");
      }
      return tree_.AddSymlink(path, attributes, target);
    }
    default:
      return Fail(Code::kInvalidArgument, "an entry of unknown type");
  }
}

Status Extraction::AddEntry(struct archive_entry* entry, const std::string& name) {
  if (NamesParent(name)) {
    ++report_.skipped_entries;
    return {};
  }
  ATOLL_ASSIGN(Path path, ParseEntryPath(name));
  ATOLL_ASSIGN(const ClassifiedPath classified, ClassifyPath(std::move(path)));
  switch (classified.kind) {
    case EntryKind::kAufsBookkeeping:
      return {};
    case EntryKind::kNonsense:
      ++report_.skipped_entries;
      return {};
    // The name decides, whatever the type of the entry.
    case EntryKind::kWhiteout:
      return tree_.AddWhiteout(classified.path);
    case EntryKind::kOpaque:
      return tree_.AddOpaque(classified.path);
    case EntryKind::kPlain:
      return AddPlain(entry, classified.path);
  }
  return Fail(Code::kInternal, "unknown kind of entry");
}

Result<UnpackReport> Extraction::Run() {
  // Default attributes of the root, until an entry sets them. Another process made the directory.
  ATOLL_TRY(tree_.AddDirectory({}, Attributes{}));
  for (;;) {
    ATOLL_ASSIGN(struct archive_entry* const entry, reader_.Next());
    if (entry == nullptr) break;
    ATOLL_ASSIGN(const std::string name, EntryName(entry));
    auto added = AddEntry(entry, name);
    if (!added) return Fail(std::move(added).error().Wrap("'" + Printable(name) + "'"));
  }
  ATOLL_ASSIGN(report_.diff_id, reader_.FinishAndDigest());
  ATOLL_TRY(tree_.Finish());
  report_.entries = tree_.entries();
  report_.bytes = reader_.content_bytes();
  report_.opaque_root = tree_.opaque_root();
  return report_;
}

}  // namespace

Result<UnpackReport> ExtractLayer(int input, UniqueFd directory, const ExtractLimits& limits) {
  ATOLL_ASSIGN(TarReader reader, TarReader::Open(input, limits));
  ATOLL_ASSIGN(const UniqueFd root, sys::OpenAt(directory.get(), ".", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(UnpackReport report,
               Extraction(std::move(reader), LayerTree(std::move(directory), limits)).Run());
  // Hashes the tree now, while it is cached. Later verifications compare with this digest.
  ATOLL_ASSIGN(const UnpackReport packed, PackTree(root.get(), -1, limits));
  report.content = packed.content;
  return report;
}

}  // namespace atl::images::unpack
