// Keys of identity providers, and tokens that they sign. Every signature that should be right is
// made by the library's signer.
#pragma once

#include <cjose/cjose.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/json_text.h"

namespace atl::tenants {

using nlohmann::json;

inline constexpr char kIssuer[] = "https://idp.example";
inline constexpr int64_t kNow = 1'700'000'000;

class Signer {
 public:
  Signer(const std::string& id, const std::string& algorithm) : id_(id), algorithm_(algorithm) {
    cjose_err error{};
    uint8_t exponent[] = {1, 0, 1};
    if (algorithm == "ES256") {
      key_ = cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, &error);
    } else if (algorithm == "ES512") {
      key_ = cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_521, &error);
    } else {
      key_ = cjose_jwk_create_RSA_random(2048, exponent, sizeof exponent, &error);
    }
    EXPECT_NE(key_, nullptr);
    EXPECT_TRUE(cjose_jwk_set_kid(key_, id.data(), id.size(), &error));
  }
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;
  ~Signer() { cjose_jwk_release(key_); }

  // Returns the public key as a member of a key set.
  json Public() const {
    cjose_err error{};
    char* const text = cjose_jwk_to_json(key_, false, &error);
    json key = *ParseJson(text);
    cjose_get_dealloc()(text);
    key["use"] = "sig";
    return key;
  }
  // Signs claims. `more`: further members of the header, or others for the usual ones.
  std::string Sign(const json& claims, const std::map<std::string, std::string>& more = {}) const {
    cjose_err error{};
    cjose_header_t* const header = cjose_header_new(&error);
    const auto set = [&](const std::string& name, const std::string& value) {
      const bool done = value.starts_with('[')
                            ? cjose_header_set_raw(header, name.c_str(), value.c_str(), &error)
                            : cjose_header_set(header, name.c_str(), value.c_str(), &error);
      EXPECT_TRUE(done);
    };
    set("alg", algorithm_);
    set("kid", id_);
    for (const auto& [name, value] : more) set(name, value);
    const std::string payload = JsonText(claims);
    cjose_jws_t* const jws = cjose_jws_sign(
        key_, header, reinterpret_cast<const uint8_t*>(payload.data()), payload.size(), &error);
    EXPECT_NE(jws, nullptr) << error.message;
    const char* token = nullptr;
    EXPECT_TRUE(cjose_jws_export(jws, &token, &error));
    std::string text = token;
    cjose_jws_release(jws);
    cjose_header_release(header);
    return text;
  }

 private:
  const std::string id_;
  const std::string algorithm_;
  cjose_jwk_t* key_ = nullptr;
};

inline const Signer& Rsa() {
  static const Signer signer("rsa", "RS256");
  return signer;
}
inline const Signer& Ec() {
  static const Signer signer("ec", "ES256");
  return signer;
}
inline const Signer& Stranger() {
  static const Signer signer("rsa", "RS256");
  return signer;
}

inline std::string KeySetText() {
  return JsonText({{"keys", {Rsa().Public(), Ec().Public()}}});
}

inline json UsualClaims() {
  return {{"iss", kIssuer},    {"sub", "alice"}, {"aud", "atoll"},
          {"exp", kNow + 600}, {"iat", kNow},    {"groups", {"team-red", "staff"}}};
}
inline json With(const char* name, const json& value) {
  json claims = UsualClaims();
  claims[name] = value;
  return claims;
}
inline json Without(const char* name) {
  json claims = UsualClaims();
  claims.erase(name);
  return claims;
}

}  // namespace atl::tenants
