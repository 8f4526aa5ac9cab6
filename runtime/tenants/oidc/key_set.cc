#include "runtime/tenants/oidc/key_set.h"

#include <cjose/cjose.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/tenants/oidc/base64_url.h"

namespace atl::tenants {
namespace {

constexpr size_t kMaxKeyId = 256;
constexpr size_t kLeastModulus = 2048 / 8;
// Larger ones cost more to verify, and no provider has them.
constexpr size_t kMostModulus = 4096 / 8;
constexpr size_t kMostExponent = 8;

struct Curve {
  const char* name;
  const char* algorithm;
  size_t coordinate;  // bytes
};
constexpr auto kCurves =
    std::to_array<Curve>({{"P-256", "ES256", 32}, {"P-384", "ES384", 48}, {"P-521", "ES512", 66}});
constexpr const char* kRsaAlgorithms[] = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"};

std::string TextOf(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::shared_ptr<_cjose_jwk_int> Import(const nlohmann::json& members) {
  const std::string text = JsonText(members);
  cjose_err error{};
  cjose_jwk_t* const key = cjose_jwk_import(text.data(), text.size(), &error);
  if (key == nullptr) return nullptr;
  return {key, [](cjose_jwk_t* one) { cjose_jwk_release(one); }};
}

// Returns nothing for a key that is not used here. Imports only the members of a public key.
std::optional<KeySet::Key> ReadKey(const nlohmann::json& entry) {
  if (!entry.is_object()) return std::nullopt;
  KeySet::Key key;
  key.id = TextOf(entry, "kid");
  key.algorithm = TextOf(entry, "alg");
  const std::string use = TextOf(entry, "use");
  if (key.id.size() > kMaxKeyId || (entry.contains("use") && use != "sig")) return std::nullopt;
  const std::string type = TextOf(entry, "kty");
  if (type == "RSA") {
    const auto n = DecodeBase64Url(TextOf(entry, "n"));
    const auto e = DecodeBase64Url(TextOf(entry, "e"));
    if (!n || n->size() < kLeastModulus || n->size() > kMostModulus || !e || e->empty() ||
        e->size() > kMostExponent) {
      return std::nullopt;
    }
    key.algorithms.assign(std::begin(kRsaAlgorithms), std::end(kRsaAlgorithms));
    key.signature = n->size();
    key.key = Import({{"kty", "RSA"}, {"n", TextOf(entry, "n")}, {"e", TextOf(entry, "e")}});
  } else if (type == "EC") {
    const std::string name = TextOf(entry, "crv");
    const auto* const curve = std::find_if(kCurves.begin(), kCurves.end(),
                                           [&](const Curve& each) { return each.name == name; });
    if (curve == kCurves.end()) return std::nullopt;
    const auto x = DecodeBase64Url(TextOf(entry, "x"));
    const auto y = DecodeBase64Url(TextOf(entry, "y"));
    if (!x || x->size() != curve->coordinate || !y || y->size() != curve->coordinate) {
      return std::nullopt;
    }
    key.algorithms = {curve->algorithm};
    key.signature = 2 * curve->coordinate;
    key.key = Import(
        {{"kty", "EC"}, {"crv", name}, {"x", TextOf(entry, "x")}, {"y", TextOf(entry, "y")}});
  }
  if (key.key == nullptr) return std::nullopt;
  return key;
}

}  // namespace

Result<std::shared_ptr<const KeySet>> KeySet::Parse(std::string_view json) {
  if (json.size() > kMaxKeySet) {
    return Fail(Code::kInvalidArgument, "a key set of " + std::to_string(json.size()) +
                                            " bytes; at most " + std::to_string(kMaxKeySet) +
                                            " are read");
  }
  ATOLL_ASSIGN(const nlohmann::json parsed, ParseJson(json, kMaxRuleLevels));
  const auto keys = parsed.is_object() ? parsed.find("keys") : parsed.end();
  if (!parsed.is_object() || keys == parsed.end() || !keys->is_array()) {
    return Fail(Code::kInvalidArgument, "no key set: an object with a list of keys is expected");
  }
  if (keys->size() > kMaxKeysOfSet) {
    return Fail(Code::kInvalidArgument, "a key set of " + std::to_string(keys->size()) +
                                            " keys; at most " + std::to_string(kMaxKeysOfSet) +
                                            " are read");
  }
  std::shared_ptr<KeySet> set(new KeySet());
  for (const nlohmann::json& entry : *keys) {
    if (auto key = ReadKey(entry)) set->keys_.push_back(*std::move(key));
  }
  if (set->keys_.empty()) {
    return Fail(Code::kInvalidArgument,
                "no key of the set is for signatures by RSA (2048 bits and more) or ECDSA");
  }
  return std::shared_ptr<const KeySet>(std::move(set));
}

bool KeySet::Key::Takes(std::string_view name) const {
  if (!algorithm.empty() && algorithm != name) return false;
  return std::find(algorithms.begin(), algorithms.end(), name) != algorithms.end();
}

const KeySet::Key* KeySet::Find(const std::string& id) const {
  if (id.empty()) return keys_.size() == 1 ? &keys_.front() : nullptr;
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.id == id; });
  return found == keys_.end() ? nullptr : &*found;
}

Result<std::string> CheckSignature(std::string_view token, const KeySet::Key& key) {
  const auto wrong = [] { return Fail(Code::kPermissionDenied, "the signature is wrong"); };
  // cjose halves the signature of an elliptic curve, however long it is.
  const auto signature = DecodeBase64Url(token.substr(token.rfind('.') + 1));
  if (!signature || signature->size() != key.signature) return wrong();
  cjose_err error{};
  const std::unique_ptr<cjose_jws_t, void (*)(cjose_jws_t*)> jws(
      cjose_jws_import(token.data(), token.size(), &error), cjose_jws_release);
  if (jws == nullptr || !cjose_jws_verify(jws.get(), key.key.get(), &error)) return wrong();
  uint8_t* payload = nullptr;
  size_t size = 0;
  // The payload is borrowed from the signature's object.
  if (!cjose_jws_get_plaintext(jws.get(), &payload, &size, &error)) return wrong();
  return std::string(reinterpret_cast<const char*>(payload), size);
}

}  // namespace atl::tenants
