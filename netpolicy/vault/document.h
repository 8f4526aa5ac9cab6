// A credential vault: the secrets of one sandbox, and the requests into which each of them is put
// on the way out. The sandbox itself never holds them.
//
// A Vault from ParseVault, Patch or Decode (document_json.h, wire_json.h) has passed Check: its
// names are in normal form, every credential that a binding names exists, and no two bindings take
// the same request. Everything else in this folder relies on this.
//
// The values are secrets: no error, metadata or log contains one, nor a placeholder.
//
// Thread rule: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::vault {

// Limits of one vault. They bound the work of Check, which compares bindings in pairs, and of the
// Redactor (redact.h), which searches every answer for everything.
inline constexpr size_t kMaxCredentials = 256;
inline constexpr size_t kMaxBindings = 256;
inline constexpr size_t kMaxHosts = 1024;  // sum over all bindings
inline constexpr size_t kMaxPaths = 1024;
inline constexpr size_t kMaxSubstitutions = 512;
inline constexpr size_t kMaxVaultBytes = 1 << 20;  // sum over all strings
// Limits of one binding.
inline constexpr size_t kMaxBindingHosts = 128;
inline constexpr size_t kMaxBindingPaths = 128;
inline constexpr size_t kMaxBindingMethods = 32;
inline constexpr size_t kMaxBindingHeaders = 32;
inline constexpr size_t kMaxBindingSubstitutions = 32;
// Limits of single strings, in bytes.
inline constexpr size_t kMaxName = 256;
inline constexpr size_t kMaxPath = 2048;
inline constexpr size_t kMaxPlaceholder = 1024;
inline constexpr size_t kMaxValue = 64 << 10;
// Limit of a value that goes into a header, the target, or both. Servers refuse longer ones.
inline constexpr size_t kMaxHeadValue = 16 << 10;

struct Credential {
  std::string name;
  std::string value;     // the secret; UTF-8, not empty
  int64_t revision = 1;  // revision of the vault in which the value was set
};

enum class Scheme : uint8_t { kHttp, kHttps };
// Returns "http" or "https".
const char* SchemeName(Scheme scheme);
// The only port on which requests of a scheme are intercepted.
constexpr uint16_t PortOf(Scheme scheme) {
  return scheme == Scheme::kHttps ? 443 : 80;
}

// The requests that a binding takes. Each list has at least one element and no duplicates.
struct Match {
  std::vector<Scheme> schemes;
  std::vector<std::string> hosts;    // "api.example.com"; "*.example.com" for all names below it
  std::vector<std::string> methods;  // upper case
  std::vector<std::string> paths;    // "/v1/models"; "/v1/*" for everything that begins with "/v1/"
};

enum class AuthKind : uint8_t {
  kPassthrough,    // no header; only substitutions
  kBearer,         // Authorization: Bearer VALUE
  kBasic,          // Authorization: Basic VALUE; the value is already base64 of user:password
  kApiKey,         // one header with the value as it is
  kCustomHeaders,  // several headers
};
// Returns "passthrough", "bearer", "basic", "apiKey" or "customHeaders".
const char* AuthKindName(AuthKind kind);

// A header to be set. It replaces the request's headers of that name.
struct HeaderEntry {
  std::string name;  // form of Go's http.CanonicalHeaderKey: "X-Api-Key"
  std::string credential;
};

// Places in which a placeholder is searched for.
enum class Surface : uint8_t { kPath, kQuery, kHeader, kBody };
// Returns "path", "query", "header" or "body".
const char* SurfaceName(Surface surface);

struct Substitution {
  std::string credential;
  std::string placeholder;  // UTF-8, not empty
  std::vector<Surface> in;  // not empty, no duplicates

  bool Has(Surface surface) const;
};

struct Auth {
  AuthKind kind = AuthKind::kPassthrough;
  // One entry for Authorization with kBearer and kBasic, one with kApiKey, none with kPassthrough.
  std::vector<HeaderEntry> headers;
  std::vector<Substitution> substitutions;
};

struct Binding {
  std::string name;
  Match match;
  Auth auth;
};

struct Vault {
  int64_t revision = 1;
  std::vector<Credential> credentials;  // sorted by name
  std::vector<Binding> bindings;        // sorted by name
};

// Return nullptr if there is none.
const Credential* FindCredential(const Vault& vault, std::string_view name);
const Binding* FindBinding(const Vault& vault, std::string_view name);

// Returns what a binding of that kind puts into a header for a value: "Bearer …", "Basic …" or the
// value.
std::string HeaderValue(AuthKind kind, std::string_view value);

// Checks the vault as a whole. kInvalidArgument names the first problem: a duplicate name, a limit
// that is exceeded, a credential that does not exist, a value that cannot be sent in a head, or two
// bindings that take the same request. Single names must already be in normal form.
Status Check(const Vault& vault);

}  // namespace atl::vault
