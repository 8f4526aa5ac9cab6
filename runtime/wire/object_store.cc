#include "runtime/wire/object_store.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/wire/volume.h"

namespace atl::wire {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

Error Bad(std::string_view word, const std::string& why) {
  return Error(Code::kInvalidArgument,
               "object store: '" + std::string(word.substr(0, 200)) + "': " + why);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

bool ValidHost(std::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  for (size_t begin = 0; begin <= host.size();) {
    const size_t end = std::min(host.find('.', begin), host.size());
    const std::string_view label = host.substr(begin, end - begin);
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(),
                     [](char c) { return LowerOrDigit(c) || c == '-' || c == '_'; })) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

// The parsed "host[:port]" that must follow the scheme, with nothing after it.
struct Authority {
  std::string host;
  uint16_t port = 0;
};
std::optional<Authority> ParseAuthority(std::string_view text, uint16_t usual_port) {
  if (text.ends_with('/')) text.remove_suffix(1);
  Authority authority{Lower(text.substr(0, text.find(':'))), usual_port};
  if (!ValidHost(authority.host)) return std::nullopt;
  if (text.size() == authority.host.size()) return authority;
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data() + authority.host.size() + 1, end, authority.port);
  if (error != std::errc() || rest != end || authority.port == 0) return std::nullopt;
  return authority;
}

uint16_t UsualPort(bool tls) {
  return tls ? 443 : 80;
}

bool Printable(std::string_view text) {
  return !text.empty() && text.size() <= kMaxObjectKey &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Status SetEndpoint(std::string_view word, ObjectStore* store) {
  store->tls = word.starts_with(kHttps);
  if (!store->tls && !word.starts_with(kHttp)) {
    return Fail(Bad(word, "the endpoint must begin with https:// or http://"));
  }
  const auto authority =
      ParseAuthority(word.substr(store->tls ? kHttps.size() : kHttp.size()), UsualPort(store->tls));
  if (!authority) {
    return Fail(Bad(word,
                    "use https://HOST or https://HOST:PORT, HOST being a name or an IPv4 "
                    "address"));
  }
  store->host = authority->host;
  store->port = authority->port;
  return {};
}

Status SetOption(std::string_view word, ObjectStore* store) {
  const size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string value(equals == std::string_view::npos ? "" : word.substr(equals + 1));
  if (key == "bucket") {
    if (value != "*" && !ValidBucketName(value)) return Fail(Bad(word, "is not a bucket name"));
    store->buckets.push_back(value);
  } else if (key == "credentials" || key == "ca") {
    if (!PlainAbsolutePath(value)) return Fail(Bad(word, "must be an absolute path"));
    (key == "ca" ? store->ca : store->credentials) = value;
  } else if (key == "region") {
    if (!Printable(value) || value.size() > 63 || value.find(',') != std::string::npos) {
      return Fail(Bad(word, "is not a region name"));
    }
    store->region = value;
  } else if (key == "style") {
    if (value != "path" && value != "host") return Fail(Bad(word, "use style=path or style=host"));
    store->host_style = value == "host";
  } else {
    return Fail(Bad(word, "use bucket=, credentials=, region=, style= or ca="));
  }
  return {};
}

}  // namespace

Result<ObjectStore> ParseObjectStore(std::string_view line) {
  const std::vector<std::string_view> words = Words(line);
  if (words.size() < 2) {
    return Fail(Bad(line, "use 'NAME https://ENDPOINT bucket=NAME credentials=/FILE'"));
  }
  ObjectStore store;
  store.name = words[0];
  if (!ValidVolumeName(store.name) || store.name.size() > 63) {
    return Fail(Bad(words[0], "use up to 63 of a-z, 0-9 and - for a store's name"));
  }
  ATOLL_TRY(SetEndpoint(words[1], &store));
  for (size_t i = 2; i < words.size(); ++i) ATOLL_TRY(SetOption(words[i], &store));
  if (store.buckets.empty()) {
    return Fail(Bad(line,
                    "names no bucket: add bucket=NAME for each that may be mounted, or "
                    "bucket=* for all"));
  }
  return store;
}

Status AddObjectStore(std::string_view line, std::vector<ObjectStore>* stores) {
  ATOLL_ASSIGN(ObjectStore store, ParseObjectStore(line));
  if (std::any_of(stores->begin(), stores->end(),
                  [&](const ObjectStore& other) { return other.name == store.name; })) {
    return Fail(Bad(store.name, "another store has this name"));
  }
  if (stores->size() == kMaxObjectStores) {
    return Fail(Bad(store.name, "exceeds the limit of " + std::to_string(kMaxObjectStores)));
  }
  stores->push_back(std::move(store));
  return {};
}

std::string EndpointOf(const ObjectStore& store) {
  std::string text = std::string(store.tls ? kHttps : kHttp) + store.host;
  if (store.port != UsualPort(store.tls)) text += ":" + std::to_string(store.port);
  return text;
}

bool IsAt(const ObjectStore& store, std::string_view endpoint) {
  if (endpoint == store.name) return true;
  const bool https = endpoint.starts_with(kHttps);
  const bool http = endpoint.starts_with(kHttp);
  if ((https && !store.tls) || (http && store.tls)) return false;
  endpoint.remove_prefix(https ? kHttps.size() : http ? kHttp.size() : 0);
  const auto authority = ParseAuthority(endpoint, UsualPort(store.tls));
  return authority && authority->host == store.host && authority->port == store.port;
}

bool AllowsBucket(const ObjectStore& store, std::string_view bucket) {
  return std::any_of(store.buckets.begin(), store.buckets.end(),
                     [&](const std::string& each) { return each == "*" || each == bucket; });
}

bool ValidBucketName(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 && LowerOrDigit(name.front()) &&
         LowerOrDigit(name.back()) && name.find("..") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return LowerOrDigit(c) || c == '-' || c == '.'; });
}

bool ValidPrefix(std::string_view prefix) {
  return prefix.empty() ||
         (PlainRelativePath(prefix) && std::none_of(prefix.begin(), prefix.end(), [](char c) {
            return c == ':' || (c >= 0 && c < ' ') || c == 0x7f;
          }));
}

std::string SourceOf(const BucketName& name) {
  return name.store + "/" + name.bucket;
}

Result<BucketName> ParseSource(std::string_view source) {
  const size_t slash = source.find('/');
  if (slash != std::string_view::npos) {
    BucketName name{std::string(source.substr(0, slash)), std::string(source.substr(slash + 1))};
    if (ValidVolumeName(name.store) && ValidBucketName(name.bucket)) return name;
  }
  return Fail(Code::kInvalidArgument,
              "'" + std::string(source.substr(0, 128)) + "' is not a bucket of a store");
}

bool ValidCredentials(const ObjectCredentials& credentials) {
  return Printable(credentials.key) && credentials.key.find(':') == std::string::npos &&
         Printable(credentials.secret);
}

Result<ObjectCredentials> ParseCredentials(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    ObjectCredentials credentials{std::string(text.substr(0, colon)),
                                  std::string(text.substr(colon + 1))};
    if (ValidCredentials(credentials)) return credentials;
  }
  // The error quotes nothing, because the text is, or was meant to be, a secret.
  return Fail(Code::kInvalidArgument, "its first line is not KEY:SECRET");
}

}  // namespace atl::wire
