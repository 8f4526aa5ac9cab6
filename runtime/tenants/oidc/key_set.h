// The public keys of an identity provider, as its JWKS lists them (RFC 7517), and the check of a
// signature by one of them (RFC 7515).
//
// Takes RSA keys of 2048 to 4096 bits, and keys on P-256, P-384 and P-521. Leaves out all others,
// and those for encryption. The key decides which algorithms count, never the token.
//
// Immutable after Parse. Thread rule: any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

struct _cjose_jwk_int;

namespace atl::tenants {

inline constexpr size_t kMaxKeySet = 64 << 10;  // bytes
inline constexpr size_t kMaxKeysOfSet = 32;

class KeySet {
 public:
  // Parses a JWKS, which is hostile. kInvalidArgument: it is no JWKS, is too large, or has no
  // usable key.
  static Result<std::shared_ptr<const KeySet>> Parse(std::string_view json);

  struct Key {
    std::string id;         // kid; empty: none
    std::string algorithm;  // the only one that the key is for; empty: all of its type
    std::vector<std::string> algorithms;
    size_t signature = 0;  // bytes
    std::shared_ptr<_cjose_jwk_int> key;

    // Returns true if the key may be used with the algorithm.
    bool Takes(std::string_view name) const;
  };
  // Returns the key with that id; null if there is none. A token without a key id gets the only key
  // of a set that has one.
  const Key* Find(const std::string& id) const;
  size_t size() const { return keys_.size(); }

 private:
  KeySet() = default;

  std::vector<Key> keys_;
};

// Returns the payload of a token in compact form if the key has signed it. The caller has checked
// that the key takes the token's algorithm. kPermissionDenied: the signature is wrong.
Result<std::string> CheckSignature(std::string_view token, const KeySet::Key& key);

}  // namespace atl::tenants
