// A volume: a directory (or one file) from outside that stands in a sandbox's root.
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
    kNamed = 0,    // `source` is the name of a directory of the store's volumes
    kHost = 1,     // `source` is an absolute path of the host, beneath what the spawner allows
    kObjects = 2,  // `source` is a bucket of a store that the spawner allows (object_store.h), and
                   // `sub_path` what the names of its objects begin with
  };
  Kind kind = Kind::kNamed;
  std::string source;
  std::string sub_path;  // beneath the source, relative; empty: the source itself
  std::string target;    // absolute path in the sandbox
  bool read_only = false;
  bool own_credentials = false;  // of kObjects: its request has brought them; else the operator's

  bool operator==(const Volume&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kNamed, Kind::kObjects);
    io(self.source, self.sub_path, self.target, self.read_only, self.own_credentials);
  }
};
inline constexpr size_t kMaxVolumes = 64;
// Of them, buckets: what serves one has memory and processes of the host's, at most so many.
inline constexpr size_t kMaxBuckets = 8;
inline constexpr uint64_t kBucketMemory = 128 << 20;
inline constexpr uint64_t kBucketPids = 64;
// Of all texts of all volumes of a sandbox together: with the rest of the plan it must fit into one
// message.
inline constexpr size_t kMaxVolumeText = 48 << 10;

// The rules of form, which daemon and spawner both hold: no NUL; the source a name or
// a path as below; the target absolute and not "/"; paths without empty, "." and ".." components.
// The message says what is wrong.
Status CheckForm(const Volume& volume);
// Of all of one sandbox: each, that there are not too many buckets, and that none lies in a bucket:
// whoever looks for a place in there asks the store, and waits for it.
Status CheckForm(const std::vector<Volume>& volumes);

// What names of volumes and buckets begin and end with.
bool LowerOrDigit(char c);
// A DNS label of up to 253 characters of [a-z0-9-].
bool ValidVolumeName(std::string_view name);
// "a/b": no component is empty, "." or ".."; no NUL. Empty is not valid.
bool PlainRelativePath(std::string_view path);
// "/a/b": the same behind a slash.
bool PlainAbsolutePath(std::string_view path);

}  // namespace atl::wire
