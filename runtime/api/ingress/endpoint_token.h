// The tokens of endpoints on a daemon with tenants. GET endpoints tells a client
//
//   e1.{key id}.{sandbox id}.{MAC}
//
// in place of the sandbox's own token. The token says who comes, and for which sandbox. The daemon
// derives the MAC from a secret of its own, so it stores no tokens, and they survive its restart.
// Whether the key still lives, and what its role may do, is looked up at each use.
//
// Thread rule: constant after construction.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl::api {

class EndpointTokens {
 public:
  explicit EndpointTokens(std::string_view daemon_secret);

  // Returns true for a text in the form of such a token, right or wrong.
  static bool IsToken(std::string_view text);

  // The ids are not empty.
  std::string Make(std::string_view key_id, std::string_view sandbox_id) const;
  // Returns the id of the key that `token` was made for. Nothing: the token is not one of this
  // daemon for this sandbox. The time taken tells nothing about the right MAC.
  std::optional<std::string> KeyIdOf(std::string_view token, std::string_view sandbox_id) const;

 private:
  std::string MacOf(std::string_view key_id, std::string_view sandbox_id) const;

  const std::string mac_key_;
};

}  // namespace atl::api
