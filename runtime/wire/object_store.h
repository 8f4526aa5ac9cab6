// A store of objects (S3) whose buckets sandboxes may mount, as the operator names it: a line of
// storage.object_stores, and a flag of the spawner, which reads it again.
//
//   NAME ENDPOINT bucket=NAME… [credentials=/FILE] [region=NAME] [style=path|host] [ca=/FILE]
//
// Nobody can mount a bucket that no such line allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::wire {

struct ObjectStore {
  std::string name;  // a label
  bool tls = true;
  std::string host;  // of the endpoint: a name, or an IPv4 address
  uint16_t port = 0;
  std::vector<std::string> buckets;  // "*": any
  // A file of one line, KEY:SECRET, for requests that name this store in the place of keys; empty:
  // each request brings its own.
  std::string credentials;
  std::string region = "us-east-1";
  bool host_style = false;  // the bucket is a part of the host's name
  std::string ca;           // PEM file; empty: the host's authorities
};
inline constexpr size_t kMaxObjectStores = 64;

// kInvalidArgument names the word that is wrong.
Result<ObjectStore> ParseObjectStore(std::string_view line);
// One line more of all. kInvalidArgument, too: there are too many, or one has that name.
Status AddObjectStore(std::string_view line, std::vector<ObjectStore>* stores);

// "https://host:port", without the port that the scheme has anyway.
std::string EndpointOf(const ObjectStore& store);
// Whether a client means this one: its endpoint with or without the scheme, or its name.
bool IsAt(const ObjectStore& store, std::string_view endpoint);
bool AllowsBucket(const ObjectStore& store, std::string_view bucket);

// 3 to 63 of [a-z0-9.-], beginning and ending with a letter or digit.
bool ValidBucketName(std::string_view name);

// What names of objects may begin with: a plain relative path, without what s3fs's command line has
// a meaning for; or nothing.
bool ValidPrefix(std::string_view prefix);

// Of a bucket, on the wire and in records: "STORE/BUCKET".
struct BucketName {
  std::string store;
  std::string bucket;
};
std::string SourceOf(const BucketName& name);
// kInvalidArgument: it is none.
Result<BucketName> ParseSource(std::string_view source);

// An access key, and its secret: printable, without blanks, and no ':' in the key, because that
// ends it in a file.
struct ObjectCredentials {
  std::string key;
  std::string secret;

  bool operator==(const ObjectCredentials&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.key, self.secret);
  }
};
inline constexpr size_t kMaxObjectKey = 512;
bool ValidCredentials(const ObjectCredentials& credentials);
// Of a file of the operator's.
Result<ObjectCredentials> ParseCredentials(std::string_view text);

}  // namespace atl::wire
