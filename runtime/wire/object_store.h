// An object store (S3) whose buckets sandboxes may mount. The operator defines it in a line of
// storage.object_stores, which is also a flag of the spawner, and the spawner parses it again:
//
//   NAME ENDPOINT bucket=NAME… [credentials=/FILE] [region=NAME] [style=path|host] [ca=/FILE]
//
// Only buckets that such a line allows can be mounted.
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
  std::string host;  // host of the endpoint: a name or an IPv4 address
  uint16_t port = 0;
  std::vector<std::string> buckets;  // "*": any
  // A file with one line, KEY:SECRET, for requests that name this store instead of credentials.
  // Empty: each request brings its own.
  std::string credentials;
  std::string region = "us-east-1";
  bool host_style = false;  // the bucket is part of the host name
  std::string ca;           // PEM file; empty: the host's authorities
};
inline constexpr size_t kMaxObjectStores = 64;

// Parses a line. kInvalidArgument names the word that is wrong.
Result<ObjectStore> ParseObjectStore(std::string_view line);
// Parses a further line and adds it. kInvalidArgument also if there are too many, or the name is
// taken.
Status AddObjectStore(std::string_view line, std::vector<ObjectStore>* stores);

// Returns "https://host:port", without a port that is the scheme's default.
std::string EndpointOf(const ObjectStore& store);
// Returns true if the client's text means this store: its endpoint, with or without scheme, or its
// name.
bool IsAt(const ObjectStore& store, std::string_view endpoint);
bool AllowsBucket(const ObjectStore& store, std::string_view bucket);

// Accepts 3 to 63 characters of [a-z0-9.-], beginning and ending with a letter or digit.
bool ValidBucketName(std::string_view name);

// Accepts prefixes of object names: a plain relative path without characters that have a meaning on
// s3fs's command line, or an empty text.
bool ValidPrefix(std::string_view prefix);

// A bucket on the wire and in records: "STORE/BUCKET".
struct BucketName {
  std::string store;
  std::string bucket;
};
std::string SourceOf(const BucketName& name);
// kInvalidArgument: malformed.
Result<BucketName> ParseSource(std::string_view source);

// An access key and its secret: printable, without blanks. The key has no ':', because that ends it
// in a file.
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
// Parses a credentials file of the operator.
Result<ObjectCredentials> ParseCredentials(std::string_view text);

}  // namespace atl::wire
