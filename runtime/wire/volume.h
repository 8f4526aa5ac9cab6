// A volume: a directory or file from outside that is mounted in a sandbox's root.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"

namespace atl::wire {

struct Volume {
  enum class Kind : uint8_t {
    kNamed = 0,  // `source` is a directory of the store's volumes (ValidVolumeDirectory)
    kHost = 1,   // `source` is an absolute path of the host, within those that the spawner allows
    // `source` is a bucket of a store that the spawner allows (object_store.h), and `sub_path` the
    // prefix of its objects' names
    kObjects = 2,
  };
  Kind kind = Kind::kNamed;
  std::string source;
  std::string sub_path;  // relative, within the source; empty: the source itself
  std::string target;    // absolute path in the sandbox
  bool read_only = false;
  // the request has brought credentials for kObjects; otherwise the operator's are used
  bool own_credentials = false;

  bool operator==(const Volume&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kNamed, Kind::kObjects);
    io(self.source, self.sub_path, self.target, self.read_only, self.own_credentials);
  }
};
inline constexpr size_t kMaxVolumes = 64;
// Limits of buckets: their number per sandbox, and the host's memory and processes of the program
// that serves one.
inline constexpr size_t kMaxBuckets = 8;
inline constexpr uint64_t kBucketMemory = 128 << 20;
inline constexpr uint64_t kBucketPids = 64;
// Most bytes of all texts of all volumes of a sandbox: together with the rest of the plan they must
// fit into one message.
inline constexpr size_t kMaxVolumeText = 48 << 10;

// Checks the form, in the daemon and again in the spawner: no NUL; the source is a valid name or
// path; the target is absolute and not "/"; paths have no empty, "." or ".." components. The
// message says what is wrong.
Status CheckForm(const Volume& volume);
// Checks all volumes of a sandbox: each by itself, the number of buckets, and that no volume is
// mounted within a bucket, because resolving such a path would have to wait for the store.
Status CheckForm(const std::vector<Volume>& volumes);

// True for characters with which names of volumes and buckets begin and end.
bool LowerOrDigit(char c);
// Accepts a DNS label of up to 253 characters of [a-z0-9-].
bool ValidVolumeName(std::string_view name);
// Returns the directory of a volume in the store: NAME for one of the host, TENANT.NAME for one of
// a tenant. No name has a point, so no name of one owner means a volume of another.
std::string VolumeDirectory(std::string_view tenant, std::string_view name);
// Accepts what VolumeDirectory returns, up to 253 characters.
bool ValidVolumeDirectory(std::string_view directory);
// Returns the name in a directory's name.
std::string_view VolumeNameOf(std::string_view directory);
// Accepts "a/b": no component is empty, "." or ".."; no NUL; not empty.
bool PlainRelativePath(std::string_view path);
// Accepts "/a/b": a slash and a plain relative path.
bool PlainAbsolutePath(std::string_view path);

}  // namespace atl::wire
