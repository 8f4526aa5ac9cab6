// Vaults for the tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "netpolicy/vault/document_json.h"

namespace atl::vault {

// Returns a JSON document, given with ' in place of its double quotes.
inline std::string Json(std::string_view text) {
  std::string json(text);
  for (char& c : json) {
    if (c == '\'') c = '"';
  }
  return json;
}

inline Vault MustParse(std::string_view text) {
  auto vault = ParseVault(Json(text));
  EXPECT_TRUE(vault) << vault.error().message();
  return vault ? *std::move(vault) : Vault{};
}

// Returns a vault with one binding, "b", to api.example.com, and the credentials "one" and "two".
inline Vault WithAuth(std::string_view auth, std::string_view one = "S1",
                      std::string_view two = "S2",
                      std::string_view match = "'hosts':['api.example.com']") {
  return MustParse("{'credentials':[{'name':'one','source':{'value':'" + std::string(one) +
                   "'}},{'name':'two','source':{'value':'" + std::string(two) +
                   "'}}],'bindings':[{'name':'b','match':{" + std::string(match) + "},'auth':{" +
                   std::string(auth) + "}}]}");
}

}  // namespace atl::vault
