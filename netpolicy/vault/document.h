// A credential vault: the secrets of one sandbox, and the requests into which each is put on the
// way out. The sandbox itself never holds them.
//
// A Vault of ParseVault, Patch or Decode (document_json.h, wire_json.h) has passed Check: its names
// are in their normal form, every credential that a binding names is there, and no two bindings
// take the same request. Everything else in this folder relies on that, and on nothing else.
//
// The values are secrets: no error, no metadata and no log has one, nor a placeholder.
//
// Thread rule: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::vault {

// What one vault may have. They bound the work of Check, which compares bindings in pairs, and of
// the Redactor (redact.h), which looks for everything in every answer.
inline constexpr size_t kMaxCredentials = 256;
inline constexpr size_t kMaxBindings = 256;
inline constexpr size_t kMaxHosts = 1024;  // of all bindings together
inline constexpr size_t kMaxPaths = 1024;
inline constexpr size_t kMaxSubstitutions = 512;
inline constexpr size_t kMaxVaultBytes = 1 << 20;  // of all strings together
// What one binding may have.
inline constexpr size_t kMaxBindingHosts = 128;
inline constexpr size_t kMaxBindingPaths = 128;
inline constexpr size_t kMaxBindingMethods = 32;
inline constexpr size_t kMaxBindingHeaders = 32;
inline constexpr size_t kMaxBindingSubstitutions = 32;
// Of single strings, in bytes.
inline constexpr size_t kMaxName = 256;
inline constexpr size_t kMaxPath = 2048;
inline constexpr size_t kMaxPlaceholder = 1024;
inline constexpr size_t kMaxValue = 64 << 10;
// Of a value that goes into a header, the target, or both: servers take no longer ones.
inline constexpr size_t kMaxHeadValue = 16 << 10;

struct Credential {
  std::string name;
  std::string value;     // UTF-8, not empty; the secret
  int64_t revision = 1;  // of the vault, when the value was set
};

enum class Scheme : uint8_t { kHttp, kHttps };
// "http", "https".
const char* SchemeName(Scheme scheme);
// The only port on which a scheme's requests are intercepted.
constexpr uint16_t PortOf(Scheme scheme) {
  return scheme == Scheme::kHttps ? 443 : 80;
}

// The requests that a binding takes: each list has at least one element, none twice.
struct Match {
  std::vector<Scheme> schemes;
  std::vector<std::string> hosts;    // "api.example.com"; "*.example.com" for all names below it
  std::vector<std::string> methods;  // upper case
  std::vector<std::string> paths;    // "/v1/models"; "/v1/*" for all that begins with "/v1/"
};

enum class AuthKind : uint8_t {
  kPassthrough,    // no header; for substitutions alone
  kBearer,         // Authorization: Bearer VALUE
  kBasic,          // Authorization: Basic VALUE; the value is base64 of user:password already
  kApiKey,         // one header with the value as it is
  kCustomHeaders,  // several
};
// "passthrough", "bearer", "basic", "apiKey", "customHeaders".
const char* AuthKindName(AuthKind kind);

// A header to be set, replacing what the request has under that name.
struct HeaderEntry {
  std::string name;  // as Go's http.CanonicalHeaderKey writes it: "X-Api-Key"
  std::string credential;
};

// Where a placeholder is looked for.
enum class Surface : uint8_t { kPath, kQuery, kHeader, kBody };
// "path", "query", "header", "body".
const char* SurfaceName(Surface surface);

struct Substitution {
  std::string credential;
  std::string placeholder;  // UTF-8, not empty
  std::vector<Surface> in;  // at least one, none twice

  bool Has(Surface surface) const;
};

struct Auth {
  AuthKind kind = AuthKind::kPassthrough;
  // Of kBearer and kBasic one entry for Authorization, of kApiKey one, of kPassthrough none.
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
  std::vector<Credential> credentials;  // by name
  std::vector<Binding> bindings;        // by name
};

// nullptr if there is none.
const Credential* FindCredential(const Vault& vault, std::string_view name);
const Binding* FindBinding(const Vault& vault, std::string_view name);

// What a binding of that kind puts into a header for a value: "Bearer …", "Basic …" or the value.
std::string HeaderValue(AuthKind kind, std::string_view value);

// kInvalidArgument: the first thing for which the vault cannot be used: two of one name, too many
// of something, a credential that is not there, a value with which a head could not be sent, two
// bindings that take the same request. The single names must be in their normal form.
Status Check(const Vault& vault);

}  // namespace atl::vault
